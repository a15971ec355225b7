-- shown: a token or a text for people: ␠ for a space, \n for a line feed, <E2 80> for bytes that do not form a character,
-- <U+202E> for invisible characters. streambpe/text/shown.py is the same in Python.
CREATE OR REPLACE MACRO shown(token) AS
replace(replace(replace(array_to_string(list_transform(
    -- the hex digits of each UTF-8 character in turn, or of a single byte that belongs to no character
    regexp_extract_all(
        hex(token),
        '[0-7].|(?:C[2-9A-F]|D.)[89AB].|E0[AB].[89AB].|E[1-9A-CEF][89AB].[89AB].|ED[89].[89AB].|F0[9AB].[89AB].[89AB].'
        || '|F[1-3][89AB].[89AB].[89AB].|F48.[89AB].[89AB].|..'
    ),
    lambda digits: CASE
        WHEN digits = '20' THEN '␠'
        WHEN digits = '0A' THEN '\n'
        WHEN digits = '0D' THEN '\r'
        WHEN digits = '09' THEN '\t'
        WHEN digits = '5C' THEN '\\'
        WHEN length(digits) = 2 AND digits >= '80' THEN chr(1) || digits || chr(2)
        WHEN regexp_matches(
            decode(unhex(digits)),
            '[\x{0}-\x{1F}\x{7F}-\x{A0}\x{AD}\x{34F}\x{61C}\x{115F}\x{1160}\x{1680}\x{17B4}\x{17B5}'
            || '\x{180B}-\x{180F}\x{2000}-\x{200F}\x{2028}-\x{202F}\x{205F}-\x{206F}\x{3000}\x{3164}'
            || '\x{E000}-\x{F8FF}\x{FE00}-\x{FE0F}\x{FEFF}\x{FFA0}\x{FFF0}-\x{FFFB}\x{1BCA0}-\x{1BCA3}'
            || '\x{1D173}-\x{1D17A}\x{E0000}-\x{10FFFF}]'
        ) THEN '<U+' || printf('%04X', unicode(decode(unhex(digits)))) || '>'
        ELSE decode(unhex(digits))
    END
), ''), chr(2) || chr(1), ' '), chr(1), '<'), chr(2), '>');
