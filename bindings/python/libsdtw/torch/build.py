# python -m libsdtw.torch.build: compiles the extension for the PyTorch that is installed.
"""Builds what makes small calls faster: see _extension."""

from ._extension import main

if __name__ == "__main__":
    main()
