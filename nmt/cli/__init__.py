"""Commands: a file for each, arguments in, text out."""

import os
import sys

try:
    os.getcwd()
except FileNotFoundError:  # here, because importing torch would end the process with a message of its libraries
    sys.exit("error: the working directory was deleted. Fix: cd to a folder that exists")
