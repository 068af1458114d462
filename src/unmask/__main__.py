"""`python -m unmask` is the command `unmask`."""

from unmask.cli import main

main()
