"""The command line. ``options`` says what each command takes, the module of a command what it does with it."""
