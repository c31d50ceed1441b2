"""Notices that the next page shows after an action. The URL contains a key, not the text."""

from __future__ import annotations

from flask import redirect
from werkzeug.wrappers import Response

NOTICES = {
    "password": "Your password was changed. Other sessions of yours were ended.",
    "second-factor-is-on": "Two-factor authentication is on. Turn it off before you set it up again.",
    "second-factor-too-late": "The setup took too long. Begin again.",
    "second-factor-removed": "Two-factor authentication is off.",
    "made": "Created.",
    "changed": "Saved.",
    "setting-reset": "It is again as the settings file, the environment or the default says.",
    "retired": "Retired. Its history is kept.",
    "restored": "Restored, with its tags.",
    "tagged": "The tag was attached.",
    "untagged": "The tag was detached.",
    "removed": "The reader was removed. What it recorded stays.",
    "printed": "Sent to the printer.",
    "dropped": "Removed from the list.",
    "dismissed": "Dismissed for good. It is still counted.",
    "brought-back": "It is shown again when it is next heard.",
    "plan-removed": "The plan was removed. Its locations are as they were.",
    "retried": "Queued again. If it fails once more, it comes back here.",
    "disabled": "They cannot sign in any more, and were signed out everywhere.",
    "enabled": "They can sign in again.",
    "device-revoked": "The device was revoked; whoever used it is signed out.",
    "site-removed": "The site was removed. What it sent stays, and is kept here from now on.",
    "merged": "The assets that agreed are merged. This hub keeps them from now on.",
    "same": "They are one asset now, with the tags of both, and this hub keeps it.",
    "renamed": "It has the new key here, and what clashed with it has its own.",
    "pause": "Paused. What happens meanwhile is kept.",
    "resume": "It resumes within seconds.",
    "verify": "It compares once nothing is waiting. Load this page again in a while.",
    "destination-removed": "Removed. It receives no more events.",
    "destination-enabled": "It resumes within seconds, with the events that are still in the log.",
    "destination-disabled": "It receives nothing until it is enabled.",
    "tested": "A test event is on its way. Load this page again to see what came of it.",
    "revoked": "The key was revoked. It stopped working at once.",
}


def done(path: str, notice: str) -> Response:
    """Redirect after a form was processed. Reloading the next page does not submit the form again."""
    if notice not in NOTICES:
        raise KeyError(notice)
    separator = "&" if "?" in path else "?"
    return redirect(f"{path}{separator}done={notice}", 303)
