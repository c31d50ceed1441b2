"""Notices that the next page shows after an action. The URL contains a key, not the text."""

from __future__ import annotations

from flask import redirect
from werkzeug.wrappers import Response

from edge.texts import N_

NOTICES = {
    "upstream-compared": N_("The comparison begins within seconds."),
    "upstream-overwritten": N_("It is overwritten there within seconds."),
    "upstream-kept": N_("Taken over."),
    "sessions-ended": N_("Signed out there."),
    "password": N_("Password changed. Your other sessions were signed out."),
    "second-factor-is-on": N_("Two-factor authentication is on. Turn it off before you set it up again."),
    "second-factor-too-late": N_("The setup timed out. Start again."),
    "second-factor-removed": N_("Two-factor authentication is off."),
    "made": N_("Created."),
    "changed": N_("Saved."),
    "setting-reset": N_("Reset to default."),
    "retired": N_("Retired. Its history is kept."),
    "restored": N_("Restored with its tags."),
    "tagged": N_("Tag attached."),
    "untagged": N_("Tag detached."),
    "removed": N_("Reader removed. Recorded history is kept."),
    "sled-undone": N_("Undone. The assets are where they were before."),
    "sled-undone-partly": N_("The newest 2,000 scans are undone. Undo again for the others."),
    "printed": N_("Sent to the printer."),
    "dropped": N_("Removed from the list."),
    "dismissed": N_("Dismissed. It is still counted."),
    "brought-back": N_("It will be shown again with its next message."),
    "door-removed": N_("Door removed. Its passages are kept."),
    "acknowledged": N_("Acknowledged."),
    "rule-enabled": N_("Enabled. It alerts about what happens from now on."),
    "rule-disabled": N_("Disabled. Its alerts are kept."),
    "rule-removed": N_("Rule removed. Its alerts are kept."),
    "list-removed": N_("List deleted."),
    "list-started": N_("Started. Passages and scans count from now on."),
    "list-signed": N_("Signed off."),
    "filter-saved": N_("Filter saved. It is above the list for everyone."),
    "filter-removed": N_("Filter removed."),
    "lent": N_("Lent. It is listed as overdue after the last day."),
    "returned": N_("Returned."),
    "note-removed": N_("Note deleted."),
    "photo-removed": N_("Photo deleted."),
    "muster-plan-removed": N_("Plan deleted. Its reports are kept."),
    "muster-ended": N_("Ended. The report is stored."),
    "plan-removed": N_("Plan removed. Its locations are kept."),
    "retried": N_("Requeued. If it fails again, it returns to this list."),
    "disabled": N_("Person disabled and signed out everywhere."),
    "enabled": N_("Person enabled."),
    "device-revoked": N_("Device revoked and signed out."),
    "site-removed": N_("Site removed. Its data now belongs to this hub, until the site is added again."),
    "site-retired": N_("Site retired. Its history stays, read-only."),
    "merged": N_("Matching assets merged. They now belong to this hub."),
    "same": N_("Assets merged. The asset has the tags of both and belongs to this hub."),
    "renamed": N_("Renamed. The conflict is resolved."),
    "pause": N_("Paused. Changes are kept and sent later."),
    "resume": N_("Resumes within seconds."),
    "verify": N_("The comparison starts when nothing is waiting. Reload this page later."),
    "destination-removed": N_("Removed. No more events are sent to it."),
    "destination-enabled": N_("Resumes within seconds with the events still in the log."),
    "destination-disabled": N_("Disabled. No events are sent until it is enabled."),
    "output-added": N_("Added. Switch it on for 3 seconds with Test."),
    "output-removed": N_("Removed. It is switched off."),
    "output-enabled": N_("Enabled. New alerts switch it."),
    "output-disabled": N_("Disabled and switched off."),
    "output-tested": N_("It is switched on for 3 seconds."),
    "channel-added": N_("Added. Send a test message to try it."),
    "channel-removed": N_("Removed with its waiting messages."),
    "channel-enabled": N_("Enabled."),
    "channel-disabled": N_("Disabled. Nothing is sent until it is enabled."),
    "channel-tested": N_("The test message is being sent. Its result appears below."),
    "destination-tested": N_("Test event sent. Reload this page to see the result."),
    "wall-revoked": N_("Kiosk display revoked. Its link no longer works."),
    "revoked": N_("Key revoked. It no longer works."),
}


def done(path: str, notice: str) -> Response:
    """Redirect after a form was processed. Reloading the next page does not submit the form again."""
    if notice not in NOTICES:
        raise KeyError(notice)
    separator = "&" if "?" in path else "?"
    return redirect(f"{path}{separator}done={notice}", 303)
