"""Authlib 1.2, as Debian has it: prints an address, reads the one that the person came back to, goes on."""
import os

# docs
import requests
from authlib.common.security import generate_token
from authlib.integrations.requests_client import OAuth2Session
from authlib.oauth2.rfc8414 import get_well_known_url
# end
ISSUER, STORE, METHOD = os.environ["ISSUER"], os.environ["STORE"], os.environ["METHOD"]
CLIENT_ID, CLIENT_SECRET = os.environ["CLIENT_ID"], os.environ["CLIENT_SECRET"]
REDIRECT_URI = os.environ["REDIRECT_URI"]
authentication = {"basic": "client_secret_basic", "post": "client_secret_post", "none": "none"}[METHOD]
# docs
server = requests.get(get_well_known_url(ISSUER, external=True)).json()
session = OAuth2Session(
    CLIENT_ID,
    CLIENT_SECRET,
    token_endpoint_auth_method=authentication,
    revocation_endpoint_auth_method=authentication,
    scope="store_full_access",
    redirect_uri=REDIRECT_URI,
    code_challenge_method="S256",
)
verifier = generate_token(48)
address, state = session.create_authorization_url(server["authorization_endpoint"], code_verifier=verifier)
print(address, flush=True)
back = input()

tokens = session.fetch_token(
    server["token_endpoint"], authorization_response=back, state=state, code_verifier=verifier
)
headers = {"SERVICE-API-VERSION": "1"}
print(session.get(STORE, headers=headers).status_code)
renewed = session.refresh_token(server["token_endpoint"])
print(session.get(STORE, headers=headers).status_code)
session.revoke_token(
    server["revocation_endpoint"], token=renewed["refresh_token"], token_type_hint="refresh_token"
).raise_for_status()
# end
print(session.get(STORE, headers=headers).status_code)
print(tokens["refresh_token"])
print(renewed["refresh_token"])
