"""The commands of the command line. No logic here: each reads its arguments, calls the library and prints."""
