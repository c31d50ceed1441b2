"""The "?" link of each page to its section of the manual."""

from __future__ import annotations

from flask import request

from edge.manual import ADDRESS

# Section by registered path of the page. Paths below it have the same section.
SECTIONS = {
    "/": "office#board",
    "/account": "office#account",
    "/account/second-factor": "office#two-factor-authentication",
    "/api/docs": "api#first-call",
    "/assets/<int:asset_id>": "office#assets",
    "/assets/<int:asset_id>/edit": "office#assets",
    "/assets/<int:asset_id>/history": "office#past-positions",
    "/assets/<int:asset_id>/label": "office#labels",
    "/assets/<int:asset_id>/trail": "office#floor-plans",
    "/assets/<int:asset_id>/why": "positions#explanations",
    "/assets/new": "office#assets",
    "/audit": "office#audit",
    "/certificate": "installation#https",
    "/devices": "scanning#shared-handhelds",
    "/enrol/<code>": "scanning#shared-handhelds",
    "/event-destinations": "events#destinations",
    "/event-destinations/<int:no>": "events#delivery",
    "/event-destinations/new": "events#destinations",
    "/export": "office#export",
    "/import": "office#import",
    "/import/<job_id>": "office#import",
    "/keys": "api#keys-and-tokens",
    "/keys/<key_id>/revoke": "api#keys-and-tokens",
    "/keys/new": "api#keys-and-tokens",
    "/labels": "office#labels",
    "/labels/printer": "office#label-printer",
    "/locations": "office#locations",
    "/locations/<int:location_id>": "office#locations",
    "/locations/<int:location_id>/edit": "office#locations",
    "/locations/<int:location_id>/history": "office#past-positions",
    "/locations/<int:location_id>/label": "office#labels",
    "/locations/<int:location_id>/plan": "office#floor-plans",
    "/locations/<int:location_id>/plan/edit": "office#floor-plans",
    "/locations/new": "office#locations",
    "/manual": "README#use",
    "/manual/<path:name>": "README#use",
    "/not-seen": "office#missing-assets",
    "/past": "office#past-positions",
    "/people": "office#people-and-roles",
    "/people/<int:person_id>/edit": "office#people-and-roles",
    "/people/new": "office#people-and-roles",
    "/plans": "office#floor-plans",
    "/readers": "readers#first-reader",
    "/readers/<int:reader_id>": "readers#message-outcomes",
    "/readers/<int:reader_id>/antennas": "readers#antennas",
    "/readers/<int:reader_id>/correct": "positions#location-corrections",
    "/readers/<int:reader_id>/edit": "readers#reader-settings",
    "/readers/<int:reader_id>/reads": "readers#live-reads",
    "/readers/dead-letters": "readers#unreadable-messages",
    "/readers/new": "readers#first-reader",
    "/readers/topics": "readers#unassigned-topics",
    "/readers/unknown-tags": "readers#unmatched-tags",
    "/scan": "scanning#first-scan",
    "/scan/test-code": "scanning#hardware-scanners",
    "/sign-in": "troubleshooting#sign-in",
    "/status": "office#status",
    "/status/settings/<name>": "settings#changes-while-the-service-runs",
    "/stock-takes": "scanning#stock-takes",
    "/stock-takes/<stock_take_id>": "scanning#stock-takes",
    "/sync": "sites#status",
    "/sync/sites/<int:site_no>/remove": "sites#removal",
}
OTHERWISE = "troubleshooting#symptoms"


def help_address() -> str:
    """Return the path of the section about the requested page."""
    path = request.url_rule.rule if request.url_rule else ""
    while path and path not in SECTIONS:
        path = path.rpartition("/")[0]
    return f"{ADDRESS}/{SECTIONS.get(path, OTHERWISE)}"
