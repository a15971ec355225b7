/* The whole core, compiled as one: its files in an order in which each needs only those before it. So every function
   that is not exported is static, has a name of its own, and may be inlined wherever it is called. */

#include "core.h"
#include "hash.h"
#include "sort.h"
#include "utf8.h"

#include "table.c"
#include "pairs.c"
#include "merge.c"
#include "runs.c"
#include "scan.c"

#include "split.c"
#include "split_own.c"
#include "split_words.c"
#include "count.c"
#include "json_lines.c"

#include "learn.h"
#include "learn_tokens.c"
#include "learn_pairs.c"
#include "learn_stands.c"
#include "learn_fill.c"
#include "learn_merge.c"
#include "learn_words.c"
#include "learn.c"

#include "encode.h"
#include "encode_replay.c"
#include "encode.c"
#include "encode_text.c"
#include "decode.c"
#include "fewest.c"
