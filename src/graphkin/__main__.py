from graphkin.commands.cli import main

main()
