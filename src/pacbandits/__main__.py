"""`python -m pacbandits`."""

from pacbandits.cli import main

main()
