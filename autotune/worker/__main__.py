"""`PYTHON …/autotune/worker serve|once|probe`: load this folder as a private package and hand over."""

import importlib
import importlib.util
import os
import sys

PACKAGE = "_autotune_worker"


def load() -> None:
    """Make this folder importable as `_autotune_worker`, and by no other name."""
    folder = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.abspath(sys.path[0]) == folder:
        del sys.path[0]
    location = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location(PACKAGE, location, submodule_search_locations=[folder])
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    load()
    module = {"serve": "launcher", "once": "child", "probe": "probe"}[sys.argv[1]]
    importlib.import_module(f"{PACKAGE}.{module}").main(sys.argv[2:])
