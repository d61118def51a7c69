"""`treadle login`, `logout`, `whoami` and `models`: an agent's own Codex home and its account.

A key comes by standard input only and goes to the agent's home only.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from treadle.cli import options
from treadle.cli.invocation import Invocation

if TYPE_CHECKING:
    from treadle.gateway.accounts import FaceAccounts, Pending
    from treadle.runtime.accounts import Account

MAX_KEY_BYTES = 65_536


def _with_accounts(invocation: Invocation, job: Callable[[FaceAccounts], Awaitable[int]]) -> int:
    from treadle.cli.opened import with_face
    from treadle.gateway.accounts import FaceAccounts

    return with_face(invocation, lambda face: job(FaceAccounts(face)))


@click.command()
@click.option("--chatgpt", is_flag=True, help="With ChatGPT, in a browser on this machine.")
@click.option("--device", is_flag=True, help="With ChatGPT, in a browser anywhere, by a code.")
@click.option("--api-key-stdin", is_flag=True, help="With an API key read from standard input.")
@options.agent_option
@click.pass_obj
def login(
    invocation: Invocation, chatgpt: bool, device: bool, api_key_stdin: bool, agent: str
) -> int:
    """Sign an agent's Codex in; without an option, with ChatGPT in a browser."""
    if chatgpt + device + api_key_stdin > 1:
        raise click.UsageError("--chatgpt, --device and --api-key-stdin exclude each other.")
    key = _read_key(invocation) if api_key_stdin else None

    async def job(accounts: FaceAccounts) -> int:
        if key is not None:
            account = await accounts.login_api_key(agent, key)
        else:
            account = await _in_browser(invocation, accounts, agent, device=device)
        invocation.output.mark("✓", _sentence(account))
        return 0

    return _with_accounts(invocation, job)


def _read_key(invocation: Invocation) -> str:
    from treadle.runtime.accounts import checked_key

    if sys.stdin is None:
        return checked_key("")
    if sys.stdin.isatty():
        from getpass import getpass

        return checked_key(getpass("API key (not shown): ", stream=invocation.output.err))
    return checked_key(sys.stdin.buffer.read(MAX_KEY_BYTES).decode("utf-8", "replace"))


async def _in_browser(
    invocation: Invocation, accounts: FaceAccounts, agent: str, *, device: bool
) -> Account:
    async with accounts.login(agent, device=device) as pending:
        _say_where(invocation, pending)
        await pending.wait()
    return await accounts.whoami(agent)


def _say_where(invocation: Invocation, pending: Pending) -> None:
    invocation.output.say(f"Open this address in a browser and sign in:\n  {pending.url}")
    if pending.code is not None:
        invocation.output.say(f"and type this code there: {pending.code}")
    invocation.output.say("Waiting for it (Ctrl-C gives up).")


@click.command()
@options.agent_option
@click.pass_obj
def logout(invocation: Invocation, agent: str) -> int:
    """Sign an agent's Codex out."""

    async def job(accounts: FaceAccounts) -> int:
        invocation.output.mark("✓", _sentence(await accounts.logout(agent)))
        return 0

    return _with_accounts(invocation, job)


@click.command()
@options.agent_option
@options.json_option
@click.pass_obj
def whoami(invocation: Invocation, agent: str, as_json: bool) -> int:
    """Say who an agent's Codex is signed in as; exit 4 if it has to be and is not."""
    from treadle.cli.exit_codes import Exit

    async def job(accounts: FaceAccounts) -> int:
        account = await accounts.whoami(agent)
        if as_json:
            invocation.output.json(account.to_json())
        else:
            invocation.output.print(_sentence(account))
        is_missing = account.needs_sign_in and not account.is_signed_in
        if is_missing and not as_json:
            invocation.output.say(f"  Next: run treadle login{_for(agent)}.")
        return Exit.CODEX if is_missing else Exit.DONE

    return _with_accounts(invocation, job)


@click.command()
@options.agent_option
@options.json_option
@click.pass_obj
def models(invocation: Invocation, agent: str, as_json: bool) -> int:
    """List the models that an agent's Codex knows; works offline."""

    async def job(accounts: FaceAccounts) -> int:
        rows = await accounts.models(agent)
        if as_json:
            invocation.output.json({"items": [row.to_json() for row in rows], "next": None})
            return 0
        cells = [("MODEL", "", "EFFORTS", "ABOUT")]
        for row in rows:
            efforts = ", ".join(
                f"{one}*" if one == row.default_effort else one for one in row.efforts
            )
            cells.append((row.model, "default" if row.is_default else "", efforts, row.about))
        invocation.output.table(cells)
        return 0

    return _with_accounts(invocation, job)


def _for(agent: str) -> str:
    return "" if agent == "main" else f" --agent {agent}"


def _sentence(account: Account) -> str:
    if not account.is_signed_in:
        return f"agent {account.agent_id}: nobody is signed in"
    words = {"apiKey": "an API key", "chatgpt": "ChatGPT"}
    who = words.get(account.kind or "", account.kind or "")
    details = [text for text in (account.email, account.plan) if text]
    return f"agent {account.agent_id}: signed in with {who}" + (
        f" ({', '.join(details)})" if details else ""
    )
