"""Keys for pages of named origins, and sign-in by a proxy in front of the service."""

from __future__ import annotations

import pytest

from pacbandits.errors import InputError
from pacbandits.service.access import ProxySignIn
from tests.service.cases import SOMEBODY, refused, serving

AT = "/experiments/checkout"
SHOP, OTHER = "https://shop.example", "https://evil.example"
BODY = {"unit": "u", "context": SOMEBODY}
SECRET = "a-secret-of-the-proxy"


def test_a_key_with_origins_is_for_pages_of_these_alone(service):
    made = service.post(f"{AT}/keys", {"scope": "assign", "origins": [SHOP]}).json()
    assert made["origins"] == [SHOP]

    def ask(method, origin=None, **more):
        headers = {"Authorization": f"Bearer {made['key']}"} | ({} if origin is None else {"Origin": origin}) | more
        return service.client.request(method, f"{AT}/assignments", json=BODY, headers=headers)

    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    before = ask("OPTIONS", SHOP, **asked)
    assert before.status_code == 204
    assert before.headers["access-control-allow-origin"] == SHOP
    assert "Authorization" in before.headers["access-control-allow-headers"]
    answer = ask("POST", SHOP)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == SHOP
    assert answer.headers["vary"] == "origin"
    wrong = service.client.request(
        "POST", f"{AT}/assignments", json={}, headers={"Authorization": f"Bearer {made['key']}", "Origin": SHOP}
    )
    assert (wrong.status_code, wrong.headers["access-control-allow-origin"]) == (422, SHOP)  # scripts may read why
    for origin in (OTHER, None, "null", SHOP + ".evil.example"):
        answer = ask("POST", origin)
        assert refused(answer, 403, f"for pages of {SHOP}")
        assert "access-control-allow-origin" not in answer.headers
    assert ask("OPTIONS", OTHER, **asked).status_code == 403
    service.ask("DELETE", f"{AT}/keys/{made['id']}")
    assert ask("OPTIONS", SHOP, **asked).status_code == 403


def test_a_public_key_may_only_assign(service):
    for scope in ("read", "assign read", "steer"):
        asked = {"scope": scope, "origins": [SHOP]}
        assert refused(service.post(f"{AT}/keys", asked), 422, "its scope must be assign")
    for origin in ("*", "shop.example", "https://shop.example/path", "https://a b", ""):
        assert service.post(f"{AT}/keys", {"scope": "assign", "origins": [origin]}).status_code == 422


def test_a_proxy_signs_users_in(tmp_path):
    proxy = ProxySignIn.from_environment(
        {"PACBANDITS_SIGN_IN_HEADER": "X-Auth-Request-Email", "PACBANDITS_PROXY_SECRET": SECRET}
    )
    with serving(tmp_path, proxy=proxy) as service:
        service.create()

        def look(**headers):
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return service.client.request("GET", f"/dashboard{AT}", headers=named).status_code

        assert look(x_auth_request_email="ada@example.org", x_pacbandits_proxy_secret=SECRET) == 200
        assert look(x_auth_request_email="ada@example.org") == 303  # who reaches the server directly
        assert look(x_auth_request_email="ada@example.org", x_pacbandits_proxy_secret="wrong") == 303
        assert look(x_auth_request_email=" ", x_pacbandits_proxy_secret=SECRET) == 303
        assert look(x_pacbandits_proxy_secret=SECRET) == 303
        assert service.get(AT, key=None).status_code == 401  # the API takes keys alone


def test_a_proxy_without_a_secret_is_refused():
    assert ProxySignIn.from_environment({}) is None
    for given in (
        {"PACBANDITS_SIGN_IN_HEADER": "X-User"},
        {"PACBANDITS_PROXY_SECRET": SECRET},
        {"PACBANDITS_SIGN_IN_HEADER": "X-User", "PACBANDITS_PROXY_SECRET": "short"},
    ):
        with pytest.raises(InputError, match="sign-in by a proxy needs"):
            ProxySignIn.from_environment(given)
