from graphkin.cli import main

main()
