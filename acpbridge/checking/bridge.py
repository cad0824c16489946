"""Checks of the bridge itself: configuration, state directory, daemon, versions. Starts nothing."""

import platform
import sys

from acpbridge import __version__
from acpbridge.checking.report import Check, Status, failed
from acpbridge.config.snapshot import Config
from acpbridge.daemon.configfile import ConfigFile
from acpbridge.daemon.paths import Paths, check_private
from acpbridge.daemon.policyfile import PolicyFile
from acpbridge.daemon.quick import connect
from acpbridge.errors import BridgeError


def check_versions() -> Check:
    """Say what runs here."""
    python = platform.python_version()
    facts = {"version": __version__, "python": python, "platform": sys.platform}
    message = f"version {__version__}, Python {python} ({sys.executable})"
    return Check("bridge", "acpbridge", Status.OK, message, facts=facts)


def check_config(paths: Paths) -> tuple[Check, Config | None]:
    """Load the configuration; return it where it can be used."""
    where = {"path": str(paths.config)}
    try:
        config = ConfigFile(paths.config).first()
    except BridgeError as error:
        return failed("bridge", "config", error, where), None
    facts = {
        **where,
        "revision": config.revision,
        "agents": list(map(str, config.agents)),
        "warnings": list(config.warnings),
    }
    if not config.path:
        message = f"there is no {paths.config}; the defaults hold"
    else:
        agents = ", ".join(config.agents) or "none"
        message = f"{paths.config}, revision {config.revision}; agents: {agents}"
    return Check("bridge", "config", Status.OK, message, facts=facts), config


def check_policy(paths: Paths) -> Check:
    """Load the policy, and say how many rules are in it."""
    path = paths.policy
    try:
        policy = PolicyFile.first(paths)
    except BridgeError as error:
        return failed("bridge", "policy", error, {"path": str(path)})
    facts = {"path": str(path), "sha256": policy.book.sha256 or None, "rules": policy.rules}
    if policy.missing:
        message = f"there is no {path}; everything is asked"
    else:
        message = f"{path}, rules: {policy.rules}"
    return Check("bridge", "policy", Status.OK, message, facts=facts)


def check_home(paths: Paths) -> Check:
    """See whether the state directory is ours alone."""
    facts = {"path": str(paths.home)}
    try:
        check_private(paths.home)
    except FileNotFoundError:
        message = f"{paths.home} is not made yet"
        return Check("bridge", "home", Status.OK, message, facts=facts)
    except BridgeError as error:
        return failed("bridge", "home", error, facts)
    except OSError as error:
        reason = f"{paths.home} cannot be looked at: {error.strerror}."
        return failed("bridge", "home", BridgeError("not_our_socket", reason), facts)
    return Check("bridge", "home", Status.OK, f"{paths.home} is ours alone", facts=facts)


def check_daemon(paths: Paths) -> Check:
    """See whether a daemon runs, answers, and speaks as we do."""
    facts = {"socket": str(paths.socket), "log": str(paths.log), "pid": None, "version": None}
    try:
        client = connect(paths)
        if client is None:
            message = f"none runs; it is started when it is needed; its log: {paths.log}"
            return Check("bridge", "daemon", Status.OK, message, facts=facts)
        with client:
            shown = client.call("status", key="")["daemon"]
    except BridgeError as error:
        return failed("bridge", "daemon", error, facts)
    facts |= {"pid": shown["pid"], "version": shown["version"]}
    message = f"runs (pid {shown['pid']}), version {shown['version']}; its log: {paths.log}"
    hint = "" if shown["version"] == __version__ else "Restart it: acpbridge daemon stop."
    return Check("bridge", "daemon", Status.OK, message, hint, facts=facts)
