from pacbandits.cli import main

main()
