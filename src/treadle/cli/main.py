"""The program `treadle`: global options, the list of commands, and the one place of its endings.

Imports click and nothing heavier, so that `--help` stays cheap; a command's module, and what that
needs, is imported when the command is used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn

import click

from treadle.cli.lazy import LazyGroup, Listed

if TYPE_CHECKING:
    from treadle.cli.failure import Failure

_IN: Final = "treadle.cli.commands"

COMMANDS: Final[tuple[Listed, ...]] = (
    Listed(
        name="demo",
        target=f"{_IN}.demo:demo",
        about="Run the main job on this machine: no key, no network.",
    ),
    Listed(name="run", target=f"{_IN}.run:run", about="Send one message, print the answer."),
    Listed(name="chat", target=f"{_IN}.chat:chat", about="Talk in a session, line by line."),
    Listed(
        name="sessions",
        target=f"{_IN}.sessions:sessions",
        about="List, show, search, export and change sessions.",
    ),
    Listed(name="context", target=f"{_IN}.context:context", about="Show what the model was given."),
    Listed(name="engines", target=f"{_IN}.engines:engines", about="List the context engines."),
    Listed(
        name="config", target=f"{_IN}.config:config", about="Show the settings and their place."
    ),
    Listed(
        name="doctor",
        target=f"{_IN}.doctor:doctor",
        about="Check this installation; changes nothing.",
    ),
    Listed(
        name="serve",
        target=f"{_IN}.serve:serve",
        about="Own the state directory and serve it to other commands.",
    ),
    Listed(
        name="status",
        target=f"{_IN}.status:status",
        about="Say what runs on the state directory; changes nothing.",
    ),
    Listed(name="stop", target=f"{_IN}.stop:stop", about="Stop the server; running turns end."),
    Listed(
        name="backup",
        target=f"{_IN}.backup:backup",
        about="Put the state directory aside, also while it is in use.",
    ),
    Listed(
        name="restore",
        target=f"{_IN}.backup:restore",
        about="Bring a backup back as the state directory.",
    ),
    Listed(name="login", target=f"{_IN}.accounts:login", about="Sign an agent's Codex in."),
    Listed(name="logout", target=f"{_IN}.accounts:logout", about="Sign an agent's Codex out."),
    Listed(name="whoami", target=f"{_IN}.accounts:whoami", about="Say who an agent's Codex is."),
    Listed(
        name="models", target=f"{_IN}.accounts:models", about="List the models that Codex knows."
    ),
)
"""All commands, in the order of the help."""


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"treadle {version('treadle')}")
    ctx.exit()


@click.group(
    cls=LazyGroup,
    listed=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--config",
    type=click.Path(),
    metavar="FILE",
    help="Configuration file to use; it must exist.",
)
@click.option(
    "--state-dir",
    type=click.Path(),
    metavar="DIR",
    help="State directory: sessions, logs, Codex homes.",
)
@click.option("--no-color", is_flag=True, help="Print without colour.")
@click.option("-v", "--verbose", count=True, help="Show log events on stderr; twice for details.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
@click.pass_context
def cli(
    ctx: click.Context, config: str | None, state_dir: str | None, no_color: bool, verbose: int
) -> None:
    """Drive the real codex app-server under a pluggable context engine."""
    from treadle.cli.invocation import Invocation
    from treadle.cli.output import open_output

    ctx.obj = Invocation(
        output=open_output(os.environ, no_colour=no_color),
        config=config,
        state=state_dir,
        verbosity=verbose,
    )


def run_program(arguments: Sequence[str]) -> int:
    """Run the program and return its exit code; every ending of a command passes here."""
    try:
        # Not cli.main(): that ends a closed pipe with exit code 1.
        with cli.make_context("treadle", list(arguments)) as ctx:
            result = cli.invoke(ctx)
        sys.stdout.flush()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.exceptions.NoArgsIsHelpError as helped:
        click.echo(helped.format_message(), err=True)
        return helped.exit_code
    except click.ClickException as error:
        return _wrong_usage(arguments, error)
    except (Exception, KeyboardInterrupt) as error:  # the last door: nothing stands above it
        return _failed(arguments, error)
    return result if isinstance(result, int) else 0


def _wrong_usage(arguments: Sequence[str], error: click.ClickException) -> int:
    from treadle.cli.failure import Failure

    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx is not None else "treadle"
    message = error.format_message()
    return _show(
        arguments,
        Failure(code="usage.invalid", message=message, next_step=f"Run: {path} --help"),
    )


def _failed(arguments: Sequence[str], error: BaseException) -> int:
    from treadle.cli.exit_codes import INTERNAL, Exit
    from treadle.cli.failure import failure_from_error, leaf_of

    leaf = leaf_of(error)
    if isinstance(leaf, click.Abort | KeyboardInterrupt):
        return Exit.INTERRUPTED
    if isinstance(leaf, BrokenPipeError):
        _forget_stdout()
        return Exit.PIPE_CLOSED
    failure = failure_from_error(leaf)
    if failure.code == INTERNAL and _is_verbose(arguments):
        from traceback import print_exception

        print_exception(error)
    return _show(arguments, failure)


def _show(arguments: Sequence[str], failure: Failure) -> int:
    from treadle.cli.failure import show_failure
    from treadle.cli.output import open_output

    output = open_output(os.environ, no_colour="--no-color" in arguments)
    try:
        show_failure(output, failure, as_json=_wants_json(arguments))
    except BrokenPipeError:
        _forget_stdout()
    return failure.exit


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether the error is to be an object; asked of the words, since parsing may have failed."""
    words = arguments[: list(arguments).index("--")] if "--" in arguments else arguments
    return "--json" in words or "--jsonl" in words


def _is_verbose(arguments: Sequence[str]) -> bool:
    return any(word in {"-v", "-vv", "--verbose"} for word in arguments)


def _forget_stdout() -> None:
    """Point stdout at nothing: the interpreter would complain of the closed pipe at its end."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


def main() -> NoReturn:
    """Run the program on this process's arguments and end the process."""
    code = run_program(sys.argv[1:])
    sys.exit(code)
