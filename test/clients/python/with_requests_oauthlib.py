"""requests-oauthlib 1.3, as Debian has it: prints an address, reads the one that the person came back to, goes on."""
import os

# docs
from oauthlib.oauth2 import WebApplicationClient
from requests.auth import HTTPBasicAuth
from requests_oauthlib import OAuth2Session

# The granted scope names the store beside what was asked; without this the library takes that for an error.
os.environ["OAUTHLIB_RELAX_TOKEN_SCOPE"] = "1"
# end
# Only for a server on this computer, which speaks http.
os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"
ISSUER, STORE, METHOD = os.environ["ISSUER"], os.environ["STORE"], os.environ["METHOD"]
CLIENT_ID, CLIENT_SECRET = os.environ["CLIENT_ID"], os.environ["CLIENT_SECRET"]
REDIRECT_URI = os.environ["REDIRECT_URI"]
# docs
auth, who = HTTPBasicAuth(CLIENT_ID, CLIENT_SECRET), {}
# end
if METHOD == "post":
    auth, who = None, {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
if METHOD == "none":
    auth, who = None, {"client_id": CLIENT_ID}
# docs
client = WebApplicationClient(CLIENT_ID)
session = OAuth2Session(client=client, redirect_uri=REDIRECT_URI, scope=["store_full_access"])
verifier = client.create_code_verifier(64)
challenge = client.create_code_challenge(verifier, "S256")
address, state = session.authorization_url(
    f"{ISSUER}/authorize", code_challenge=challenge, code_challenge_method="S256"
)
print(address, flush=True)
back = input()

tokens = session.fetch_token(
    f"{ISSUER}/token",
    authorization_response=back,
    code_verifier=verifier,
    auth=auth,
    include_client_id=auth is None,
    client_secret=who.get("client_secret"),
)
headers = {"SERVICE-API-VERSION": "1"}
print(session.get(STORE, headers=headers).status_code)
renewed = session.refresh_token(f"{ISSUER}/token", auth=auth, **who)
print(session.get(STORE, headers=headers).status_code)
url, form, body = client.prepare_token_revocation_request(
    f"{ISSUER}/revoke", renewed["refresh_token"], "refresh_token", **who
)
session.post(url, headers=form, data=body, auth=auth, withhold_token=True).raise_for_status()
# end
print(session.get(STORE, headers=headers).status_code)
print(tokens["refresh_token"])
print(renewed["refresh_token"])
