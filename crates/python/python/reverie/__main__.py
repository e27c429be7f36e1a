"""`python -m reverie`."""

from reverie._command import main

main()
