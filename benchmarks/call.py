"""Run one function of this folder in this process: `python call.py MODULE:FUNCTION '{"argument": ...}'`.

Imports nothing but what the function needs: start-up is part of what is measured.
"""

import importlib
import json
import sys

module_name, function_name = sys.argv[1].split(":")
answer = getattr(importlib.import_module(module_name), function_name)(**json.loads(sys.argv[2]))
print(json.dumps(answer))
