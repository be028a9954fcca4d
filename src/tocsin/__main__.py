"""`python -m tocsin` is the command `tocsin`."""

from tocsin.cli import main

if __name__ == "__main__":
    main()
