"""The child side of a trial. It runs in the user's interpreter: Python ≥ 3.9, standard library and torch.

Run by path, `PYTHON …/autotune/worker serve`; nothing of the `autotune` package is imported. Files load
each other as the package `_autotune_worker`, and this folder is taken off `sys.path`, so no name of ours can
shadow a module of the script.

Protocol: one JSON document a line. The parent writes requests to the worker's stdin, the worker answers
on its stdout (both are set aside before anything else runs; a script gets /dev/null and its log file).

    worker → {"ready": {"forks": bool, "why_not": str | null}}     once, after importing torch
    parent → request                                               fields: see `child.run`
    worker → {"started": pid}                                      also the id of the trial's process group
    worker → {"finished": answer}                                  fields: see `child.Run.answer`

End of input means that the parent has gone: the worker kills what it started and exits.
"""
