"""Entry of the warden process: `python -I -S warden_main.py FOLDER`, started by day0's own interpreter.

Without site-packages the import name `day0` does not exist, so it is set up here from the place of this file.
"""

import sys
from types import ModuleType

if __name__ == "__main__":
    package = ModuleType("day0")
    package.__path__ = [__file__.rsplit("/", 2)[0]]
    sys.modules["day0"] = package
    from day0.sandboxes.warden import main

    sys.exit(main(sys.argv[1]))
