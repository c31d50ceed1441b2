"""Notices that the next page shows after an action. The URL contains a key, not the text."""

from __future__ import annotations

from flask import redirect
from werkzeug.wrappers import Response

NOTICES = {
    "password": "Password changed. Your other sessions were signed out.",
    "second-factor-is-on": "Two-factor authentication is on. Turn it off before you set it up again.",
    "second-factor-too-late": "The setup timed out. Start again.",
    "second-factor-removed": "Two-factor authentication is off.",
    "made": "Created.",
    "changed": "Saved.",
    "setting-reset": "Reset to default.",
    "retired": "Retired. Its history is kept.",
    "restored": "Restored with its tags.",
    "tagged": "Tag attached.",
    "untagged": "Tag detached.",
    "removed": "Reader removed. Recorded history is kept.",
    "sled-undone": "Undone. The assets are where they were before.",
    "sled-undone-partly": "The newest 2,000 scans are undone. Undo again for the others.",
    "printed": "Sent to the printer.",
    "dropped": "Removed from the list.",
    "dismissed": "Dismissed. It is still counted.",
    "brought-back": "It will be shown again with its next message.",
    "door-removed": "Door removed. Its passages are kept.",
    "acknowledged": "Acknowledged.",
    "rule-enabled": "Enabled. It alerts about what happens from now on.",
    "rule-disabled": "Disabled. Its alerts are kept.",
    "rule-removed": "Rule removed. Its alerts are kept.",
    "list-removed": "List deleted.",
    "list-started": "Started. Passages and scans count from now on.",
    "list-signed": "Signed off.",
    "filter-saved": "Filter saved. It is above the list for everyone.",
    "filter-removed": "Filter removed.",
    "lent": "Lent. It is listed as overdue after the last day.",
    "returned": "Returned.",
    "note-removed": "Note deleted.",
    "photo-removed": "Photo deleted.",
    "muster-plan-removed": "Plan deleted. Its reports are kept.",
    "muster-ended": "Ended. The report is stored.",
    "plan-removed": "Plan removed. Its locations are kept.",
    "retried": "Requeued. If it fails again, it returns to this list.",
    "disabled": "Person disabled and signed out everywhere.",
    "enabled": "Person enabled.",
    "device-revoked": "Device revoked and signed out.",
    "site-removed": "Site removed. Its data now belongs to this hub, until the site is added again.",
    "site-retired": "Site retired. Its history stays, read-only.",
    "sites-merged": "Sites merged.",
    "merged": "Matching assets merged. They now belong to this hub.",
    "same": "Assets merged. The asset has the tags of both and belongs to this hub.",
    "renamed": "Renamed. The conflict is resolved.",
    "pause": "Paused. Changes are kept and sent later.",
    "resume": "Resumes within seconds.",
    "verify": "The comparison starts when nothing is waiting. Reload this page later.",
    "destination-removed": "Removed. No more events are sent to it.",
    "destination-enabled": "Resumes within seconds with the events still in the log.",
    "destination-disabled": "Disabled. No events are sent until it is enabled.",
    "output-added": "Added. Switch it on for 3 seconds with Test.",
    "output-removed": "Removed. It is switched off.",
    "output-enabled": "Enabled. New alerts switch it.",
    "output-disabled": "Disabled and switched off.",
    "output-tested": "It is switched on for 3 seconds.",
    "channel-added": "Added. Send a test message to try it.",
    "channel-removed": "Removed with its waiting messages.",
    "channel-enabled": "Enabled.",
    "channel-disabled": "Disabled. Nothing is sent until it is enabled.",
    "channel-tested": "The test message is being sent. Its result appears below.",
    "destination-tested": "Test event sent. Reload this page to see the result.",
    "wall-revoked": "Wall revoked. Its link no longer works.",
    "revoked": "Key revoked. It no longer works.",
}


def done(path: str, notice: str) -> Response:
    """Redirect after a form was processed. Reloading the next page does not submit the form again."""
    if notice not in NOTICES:
        raise KeyError(notice)
    separator = "&" if "?" in path else "?"
    return redirect(f"{path}{separator}done={notice}", 303)
