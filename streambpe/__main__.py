"""`python -m streambpe`: the command line."""

from streambpe.cli.main import main

if __name__ == "__main__":
    main()
