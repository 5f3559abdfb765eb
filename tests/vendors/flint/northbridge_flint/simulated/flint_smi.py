import sys

print("2 cards, asked with", *sys.argv[1:])
