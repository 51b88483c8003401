"""What each command takes on the command line: a frozen dataclass a command, whose docstring is its help.

Nothing here imports PyTorch; a command's work is in the module of the same name beside this package.
"""
