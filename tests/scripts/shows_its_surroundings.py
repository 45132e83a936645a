"""Prints, as JSON, what a script can see of how it is run."""

import json
import os
import random
import sys

import neighbour
import torch

print(
    json.dumps(
        {
            "name": __name__,
            "file": __file__,
            "argv": sys.argv,
            "folder": sys.path[0],
            "cwd": os.getcwd(),
            "neighbour": neighbour.__file__,
            "random": random.random(),
            "torch_random": torch.rand(1).item(),
            "stdin": sys.stdin.read(),
            "variables": {name: value for name, value in os.environ.items() if "ALLOC_CONF" in name},
            "ours": [name for name in sys.modules if name == "steps" or name.startswith("autotune")],
            "main": sys.modules["__main__"].__dict__ is globals(),
        }
    )
)
