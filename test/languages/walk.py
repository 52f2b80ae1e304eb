"""Imports every module of a client by openapi-generator, then reads the API with it and prints what it found."""

import importlib
import json
import os
import pkgutil

import openapi_client

for module in pkgutil.walk_packages(openapi_client.__path__, 'openapi_client.'):
    importlib.import_module(module.name)

with openapi_client.ApiClient(openapi_client.Configuration(access_token=os.environ['TOKEN'])) as client:
    home = openapi_client.HomeAndStoresApi(client).get_home('1')
    webhook_id = int(os.environ['WEBHOOK_ID'])
    webhook = openapi_client.WebhooksApi(client).get_webhooks_webhook_id('1', webhook_id)
    store_id = int(os.environ['STORE_ID'])
    published = openapi_client.EventsApi(client).get_stores_store_id_collection_id('1', store_id, 'transactions', '1')
    found = {
        'home': home.links.var_self.href,
        'webhook': [webhook.id, webhook.name],
        'published': published.actual_instance.links.var_self.href,
    }
    print(json.dumps(found))
