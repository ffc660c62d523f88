"""cox, by a name that no other product has: python -m coxswain_train COMMAND..."""
import sys

from .programs import run

sys.argv[0] = 'cox'
run()
