"""`autotune dashboard`: browse a study in optuna-dashboard, on this machine only."""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

from autotune.cli.options import add_study_arguments, open_chosen_study

HOST = "127.0.0.1"
"""optuna-dashboard asks for no password and lets every visitor delete studies: it is for this machine."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_study_arguments(parser)
    parser.add_argument(
        "--port", type=int, default=8080, metavar="N", help="port to listen on (default 8080)"
    )


def run(options: argparse.Namespace) -> int:
    """Save note and figures into the study, then serve until Ctrl-C."""
    from autotune.errors import UsageError

    if not 0 <= options.port < 1 << 16:
        raise UsageError(f"--port {options.port} is no port; it takes 1 to 65535, or 0 for any free one.")
    study = open_chosen_study(options, read_only=False)
    server = _server(study, options.port)
    _save(study)
    address = f"http://{HOST}:{server.server_port}/dashboard/studies/{study._study_id}"
    print(
        f"autotune: {address} shows study '{study.study_name}'; Ctrl-C ends it.", file=sys.stderr, flush=True
    )
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("autotune: the dashboard has ended.", file=sys.stderr)
    return 0


def _save(study: Any) -> None:
    from autotune.report.board import save_to_dashboard
    from autotune.report.summary import summarise
    from autotune.study.book import shown
    from autotune.study.loop import study_storage
    from autotune.study.storage import database_errors

    with database_errors(shown(study_storage(study))):
        save_to_dashboard(study, summarise(study))


def _server(study: Any, port: int) -> Any:
    """A server with a thread for each request, as the pages ask for several things at once."""
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

    from autotune.errors import UsageError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from optuna_dashboard import wsgi

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a browser that went away before its answer was complete

    class Quiet(WSGIRequestHandler):
        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    try:
        return make_server(HOST, port, wsgi(study._storage), server_class=Server, handler_class=Quiet)
    except OSError as error:
        raise UsageError(
            f"Port {port} cannot be used ({error.strerror}); choose another with --port."
        ) from error
