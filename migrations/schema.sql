-- What all migrations together make: written by "npm run schema", compared by test/schema.test.ts. Never edited by hand.
-- Day partitions are left out.

create sequence id_n as bigint increment by 1 minvalue 1 maxvalue 9223372036854775807 start 1 cache 1;

create sequence operator_outbox_id_seq as bigint increment by 1 minvalue 1 maxvalue 9223372036854775807 start 1 cache 1;

create sequence outbox_id_seq as bigint increment by 1 minvalue 1 maxvalue 9223372036854775807 start 1 cache 1;

create sequence session_id_seq as bigint increment by 1 minvalue 1 maxvalue 9223372036854775807 start 1 cache 1;

create sequence shard_move_id_seq as integer increment by 1 minvalue 1 maxvalue 2147483647 start 1 cache 1;

create table access_grant (
  id bigint not null,
  client bigint not null,
  user_id bigint,
  scope text not null,
  store_id bigint,
  date_created timestamp with time zone not null,
  date_revoked timestamp with time zone,
  date_used timestamp with time zone,
  permissions text[],
  date_ends timestamp with time zone,
  constraint access_grant_client_fkey FOREIGN KEY (client) REFERENCES client(id) ON DELETE CASCADE,
  constraint access_grant_id_check CHECK ((id > 0)),
  constraint access_grant_permissions_check CHECK ((((scope = 'store_limited'::text) = (permissions IS NOT NULL)) AND (cardinality(permissions) > 0))),
  constraint access_grant_pkey PRIMARY KEY (id),
  constraint access_grant_scope_check CHECK ((scope = ANY (ARRAY['store_full_access'::text, 'store_limited'::text, 'user_full_access'::text, 'platform'::text]))),
  constraint access_grant_store_check CHECK (((scope = ANY (ARRAY['store_full_access'::text, 'store_limited'::text])) = (store_id IS NOT NULL))),
  constraint access_grant_user_check CHECK (((scope = 'platform'::text) = (user_id IS NULL))),
  constraint access_grant_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX access_grant_client ON access_grant USING btree (client);
CREATE INDEX access_grant_ends ON access_grant USING btree (date_ends) WHERE ((date_ends IS NOT NULL) AND (date_revoked IS NULL));
CREATE INDEX access_grant_revoked ON access_grant USING btree (date_revoked) WHERE (date_revoked IS NOT NULL);
CREATE INDEX access_grant_store ON access_grant USING btree (store_id) WHERE ((store_id IS NOT NULL) AND (date_revoked IS NULL));
CREATE INDEX access_grant_user ON access_grant USING btree (user_id);

create table access_token (
  hash bytea not null,
  grant_id bigint not null,
  date_expires timestamp with time zone not null,
  permissions text[],
  predecessor bytea,
  constraint access_token_grant_id_fkey FOREIGN KEY (grant_id) REFERENCES access_grant(id) ON DELETE CASCADE,
  constraint access_token_hash_check CHECK ((length(hash) = 32)),
  constraint access_token_permissions_check CHECK ((cardinality(permissions) > 0)),
  constraint access_token_pkey PRIMARY KEY (hash),
  constraint access_token_predecessor_check CHECK ((length(predecessor) = 32))
);
CREATE INDEX access_token_expires ON access_token USING btree (date_expires);
CREATE INDEX access_token_grant ON access_token USING btree (grant_id);

create table app_webhook (
  client bigint not null,
  url text,
  key bytea not null,
  date_modified timestamp with time zone not null,
  next_key bytea,
  rotation_ends_at timestamp with time zone,
  rotated_at timestamp with time zone,
  events text[] default '{}'::text[] not null,
  query text,
  filter text,
  constraint app_webhook_events_check CHECK ((cardinality(events) <= 100)),
  constraint app_webhook_filter_check CHECK (((length(filter) >= 1) AND (length(filter) <= 1000))),
  constraint app_webhook_pkey PRIMARY KEY (client),
  constraint app_webhook_query_check CHECK (((length(query) >= 1) AND (length(query) <= 1000))),
  constraint app_webhook_rotation_check CHECK (((next_key IS NULL) = (rotation_ends_at IS NULL))),
  constraint app_webhook_url_check CHECK (((length(url) >= 1) AND (length(url) <= 1000)))
);

create table app_webhook_change (
  client bigint not null,
  after_shard smallint default '-1'::integer not null,
  after_store bigint default 0 not null,
  stores_followed integer default 0 not null,
  stores_total integer not null,
  constraint app_webhook_change_check CHECK ((stores_total >= stores_followed)),
  constraint app_webhook_change_pkey PRIMARY KEY (client),
  constraint app_webhook_change_stores_followed_check CHECK ((stores_followed >= 0))
);

create table attempt (
  shard smallint not null,
  delivery_id bigint not null,
  n smallint not null,
  store_id bigint not null,
  webhook_id bigint not null,
  event_id bigint not null,
  date_started timestamp with time zone not null,
  duration_ms integer not null,
  outcome text not null,
  response_code smallint,
  response_headers text,
  response_body text,
  webhook_revision integer,
  constraint attempt_duration_ms_check CHECK ((duration_ms >= 0)),
  constraint attempt_n_check CHECK ((n > 0)),
  constraint attempt_pkey PRIMARY KEY (shard, delivery_id, n)
) partition by RANGE (delivery_id);
CREATE INDEX attempt_webhook ON ONLY attempt USING btree (shard, webhook_id, date_started DESC);

create table audit (
  id bigint not null,
  action text not null,
  user_id bigint,
  client bigint,
  store_id bigint,
  address text,
  user_agent text,
  detail jsonb not null,
  date_created timestamp with time zone not null,
  constraint audit_action_check CHECK ((action ~ '^[a-z_]{1,64}$'::text)),
  constraint audit_address_check CHECK ((length(address) <= 64)),
  constraint audit_id_check CHECK ((id > 0)),
  constraint audit_pkey PRIMARY KEY (id),
  constraint audit_user_agent_check CHECK ((length(user_agent) <= 512))
);
CREATE INDEX audit_acts ON audit USING btree (id DESC) WHERE (((address IS NULL) AND (action <> 'grant_retired'::text)) OR (detail ? 'by_client'::text) OR ((client IS NOT NULL) AND (action = ANY (ARRAY['user_created'::text, 'user_erased'::text, 'email_changed'::text]))));
CREATE INDEX audit_created ON audit USING btree (date_created);
CREATE INDEX audit_user ON audit USING btree (user_id, id DESC);

create table authenticator_app (
  user_id bigint not null,
  secret bytea not null,
  last_step bigint not null,
  date_created timestamp with time zone not null,
  constraint authenticator_app_pkey PRIMARY KEY (user_id),
  constraint authenticator_app_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table authorization_code (
  hash bytea not null,
  grant_id bigint not null,
  redirect_uri text,
  code_challenge text,
  date_expires timestamp with time zone not null,
  used_at timestamp with time zone,
  constraint authorization_code_code_challenge_check CHECK ((length(code_challenge) = 43)),
  constraint authorization_code_grant_id_fkey FOREIGN KEY (grant_id) REFERENCES access_grant(id) ON DELETE CASCADE,
  constraint authorization_code_hash_check CHECK ((length(hash) = 32)),
  constraint authorization_code_pkey PRIMARY KEY (hash)
);
CREATE INDEX authorization_code_expires ON authorization_code USING btree (date_expires);
CREATE INDEX authorization_code_grant ON authorization_code USING btree (grant_id);

create table awaited_member (
  shard smallint not null,
  store_id bigint not null,
  issuer text collate "C" not null,
  subject text collate "C" not null,
  role text not null,
  date_created timestamp with time zone not null,
  user_id bigint,
  constraint awaited_member_issuer_check CHECK (((length(issuer) >= 1) AND (length(issuer) <= 2000))),
  constraint awaited_member_pkey PRIMARY KEY (shard, store_id, issuer, subject),
  constraint awaited_member_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'member'::text]))),
  constraint awaited_member_shard_store_id_fkey FOREIGN KEY (shard, store_id) REFERENCES store(shard, id) ON DELETE CASCADE,
  constraint awaited_member_shard_store_id_user_id_fkey FOREIGN KEY (shard, store_id, user_id) REFERENCES membership(shard, store_id, user_id) ON DELETE CASCADE,
  constraint awaited_member_subject_check CHECK (((length(subject) >= 1) AND (length(subject) <= 255)))
);
CREATE INDEX awaited_member_identity ON awaited_member USING btree (issuer, subject);
CREATE INDEX awaited_member_user ON awaited_member USING btree (shard, store_id, user_id) WHERE (user_id IS NOT NULL);

create table client (
  id bigint not null,
  client_id text collate "C" not null,
  name text not null,
  company text,
  description text,
  redirect_uris text[] not null,
  trusted boolean not null,
  date_created timestamp with time zone not null,
  owner bigint,
  contact text,
  is_public boolean default false not null,
  is_verified boolean default true not null,
  rotates_refresh_tokens boolean default false not null,
  is_legacy boolean default false not null,
  date_modified timestamp with time zone default now() not null,
  date_deleted timestamp with time zone,
  unused_until timestamp with time zone,
  scopes text[],
  requires_pkce boolean default false not null,
  allows_device_grant boolean default false not null,
  management_token_hash bytea,
  is_listed boolean default false not null,
  client_uri text,
  policy_uri text,
  tos_uri text,
  initiate_login_uri text,
  suspended_reason text,
  constraint client_check1 CHECK (((NOT is_public) OR (rotates_refresh_tokens AND (NOT trusted) AND (NOT is_legacy)))),
  constraint client_check2 CHECK (((NOT trusted) OR (owner IS NULL))),
  constraint client_check3 CHECK (((unused_until IS NULL) OR (NOT is_verified))),
  constraint client_check4 CHECK (((NOT is_legacy) OR (cardinality(redirect_uris) = 1))),
  constraint client_client_id_check CHECK (((client_id ~ '^[A-Za-z0-9_-]{1,64}$'::text) OR ((client_id ~ '^https://[!-~]{1,247}$'::text) AND is_public AND (owner IS NULL)))),
  constraint client_client_id_key UNIQUE (client_id),
  constraint client_client_uri_check CHECK (((length(client_uri) >= 1) AND (length(client_uri) <= 2000))),
  constraint client_company_check CHECK ((length(company) <= 255)),
  constraint client_contact_check CHECK ((length(contact) <= 254)),
  constraint client_description_check CHECK ((length(description) <= 1000)),
  constraint client_id_check CHECK ((id > 0)),
  constraint client_initiate_login_uri_check CHECK (((length(initiate_login_uri) >= 1) AND (length(initiate_login_uri) <= 2000))),
  constraint client_management_token_hash_check CHECK ((length(management_token_hash) = 32)),
  constraint client_management_token_hash_key UNIQUE (management_token_hash),
  constraint client_name_check CHECK (((length(name) >= 1) AND (length(name) <= 255))),
  constraint client_owner_fkey FOREIGN KEY (owner) REFERENCES users(id) ON DELETE SET NULL,
  constraint client_pkey PRIMARY KEY (id),
  constraint client_policy_uri_check CHECK (((length(policy_uri) >= 1) AND (length(policy_uri) <= 2000))),
  constraint client_redirect_uris_check CHECK ((cardinality(redirect_uris) <= 20)),
  constraint client_scopes_check CHECK ((cardinality(scopes) > 0)),
  constraint client_suspended_reason_check CHECK (((length(suspended_reason) >= 1) AND (length(suspended_reason) <= 200))),
  constraint client_tos_uri_check CHECK (((length(tos_uri) >= 1) AND (length(tos_uri) <= 2000)))
);
CREATE INDEX client_deleted ON client USING btree (date_deleted) WHERE (date_deleted IS NOT NULL);
CREATE INDEX client_owner ON client USING btree (owner) WHERE (owner IS NOT NULL);
CREATE INDEX client_unused ON client USING btree (unused_until) WHERE (unused_until IS NOT NULL);

create table client_logo (
  client bigint not null,
  media_type text not null,
  bytes bytea not null,
  date_modified timestamp with time zone not null,
  constraint client_logo_bytes_check CHECK (((length(bytes) >= 1) AND (length(bytes) <= 262144))),
  constraint client_logo_client_fkey FOREIGN KEY (client) REFERENCES client(id) ON DELETE CASCADE,
  constraint client_logo_media_type_check CHECK ((media_type = ANY (ARRAY['image/png'::text, 'image/jpeg'::text, 'image/webp'::text, 'image/gif'::text]))),
  constraint client_logo_pkey PRIMARY KEY (client)
);

create table client_secret (
  hash bytea not null,
  client bigint not null,
  date_created timestamp with time zone not null,
  date_expires timestamp with time zone,
  constraint client_secret_client_fkey FOREIGN KEY (client) REFERENCES client(id) ON DELETE CASCADE,
  constraint client_secret_hash_check CHECK ((length(hash) = 32)),
  constraint client_secret_pkey PRIMARY KEY (hash)
);
CREATE INDEX client_secret_client ON client_secret USING btree (client);
CREATE INDEX client_secret_expires ON client_secret USING btree (date_expires) WHERE (date_expires IS NOT NULL);

create table database_identity (
  is_only boolean default true not null,
  identity uuid not null,
  home uuid,
  constraint database_identity_is_only_check CHECK (is_only),
  constraint database_identity_pkey PRIMARY KEY (is_only)
);

create table day_count (
  shard smallint not null,
  owner_id bigint not null,
  list text collate "C" not null,
  day integer not null,
  rows bigint not null,
  constraint day_count_list_check CHECK ((list = ANY (ARRAY['event'::text, 'delivery'::text, 'attempt'::text]))),
  constraint day_count_pkey PRIMARY KEY (shard, owner_id, list, day),
  constraint day_count_rows_check CHECK ((rows >= 0))
);
CREATE INDEX day_count_day ON day_count USING btree (day);

create table day_kind_count (
  shard smallint not null,
  owner_id bigint not null,
  list text collate "C" not null,
  day integer not null,
  kind text collate "C" not null,
  rows bigint not null,
  constraint day_kind_count_list_check CHECK ((list = ANY (ARRAY['event'::text, 'delivery'::text]))),
  constraint day_kind_count_pkey PRIMARY KEY (shard, owner_id, list, day, kind),
  constraint day_kind_count_rows_check CHECK ((rows >= 0))
);
CREATE INDEX day_kind_count_day ON day_kind_count USING btree (day);

create table delivery (
  shard smallint not null,
  id bigint not null,
  store_id bigint not null,
  webhook_id bigint not null,
  epoch integer not null,
  event_id bigint not null,
  attempts smallint default 0 not null,
  due_at timestamp with time zone not null,
  faults smallint default 0 not null,
  constraint delivery_attempts_check CHECK ((attempts >= 0)),
  constraint delivery_faults_check CHECK ((faults >= 0)),
  constraint delivery_pkey PRIMARY KEY (shard, id)
) with (autovacuum_vacuum_scale_factor=0.01, autovacuum_vacuum_threshold=5000);
CREATE INDEX delivery_due ON delivery USING btree (shard, webhook_id, due_at, id) WHERE (due_at > '-infinity'::timestamp with time zone);

create table delivery_done (
  shard smallint not null,
  id bigint not null,
  store_id bigint not null,
  webhook_id bigint not null,
  event_id bigint not null,
  state text not null,
  attempts smallint not null,
  date_ended timestamp with time zone not null,
  date_started timestamp with time zone,
  duration_ms integer,
  outcome text,
  response_code smallint,
  response_headers text,
  response_body text,
  resent_as bigint,
  webhook_revision integer,
  constraint delivery_done_pkey PRIMARY KEY (shard, webhook_id, id),
  constraint delivery_done_state_check CHECK ((state = ANY (ARRAY['successful'::text, 'failed'::text])))
) partition by RANGE (id);
CREATE INDEX delivery_done_event ON ONLY delivery_done USING brin (event_id int8_minmax_multi_ops) WITH (pages_per_range='16');
CREATE INDEX delivery_done_failed ON ONLY delivery_done USING btree (shard, webhook_id, id) WHERE (state = 'failed'::text);
CREATE INDEX delivery_done_later ON ONLY delivery_done USING btree (shard, webhook_id, event_id) WHERE ((id >> 38) <> (event_id >> 38));
CREATE INDEX delivery_done_not_arrived ON ONLY delivery_done USING btree (shard, webhook_id, id) WHERE ((state = 'failed'::text) AND (resent_as IS NULL));
CREATE INDEX delivery_done_resent ON ONLY delivery_done USING btree (shard, resent_as) WHERE (resent_as IS NOT NULL);
CREATE INDEX delivery_done_retried ON ONLY delivery_done USING btree (shard, webhook_id, id) WHERE (attempts > 1);
CREATE INDEX delivery_done_started ON ONLY delivery_done USING btree (shard, webhook_id, date_started DESC) WHERE (date_started > '-infinity'::timestamp with time zone);

create table delivery_order (
  shard smallint not null,
  delivery_id bigint not null,
  webhook_id bigint not null,
  resource_key bigint not null,
  version integer not null,
  constraint delivery_order_pkey PRIMARY KEY (shard, delivery_id),
  constraint delivery_order_version_check CHECK ((version > 0))
) with (autovacuum_vacuum_scale_factor=0.01, autovacuum_vacuum_threshold=5000);
CREATE INDEX delivery_order_resource ON delivery_order USING btree (shard, webhook_id, resource_key, version);

create table delivery_suspect (
  shard smallint not null,
  delivery_id bigint not null,
  fence bigint not null,
  deaths smallint default 0 not null,
  constraint delivery_suspect_deaths_check CHECK ((deaths >= 0)),
  constraint delivery_suspect_pkey PRIMARY KEY (shard, delivery_id)
);

create table device_authorization (
  hash bytea not null,
  user_code_hash bytea not null,
  client bigint not null,
  scope text not null,
  interval_seconds smallint not null,
  date_expires timestamp with time zone not null,
  date_polled timestamp with time zone,
  date_denied timestamp with time zone,
  constraint device_authorization_client_fkey FOREIGN KEY (client) REFERENCES client(id) ON DELETE CASCADE,
  constraint device_authorization_hash_check CHECK ((length(hash) = 32)),
  constraint device_authorization_interval_seconds_check CHECK ((interval_seconds > 0)),
  constraint device_authorization_pkey PRIMARY KEY (hash),
  constraint device_authorization_scope_check CHECK ((length(scope) <= 1000)),
  constraint device_authorization_user_code_hash_check CHECK ((length(user_code_hash) = 32)),
  constraint device_authorization_user_code_hash_key UNIQUE (user_code_hash)
);
CREATE INDEX device_authorization_client ON device_authorization USING btree (client);
CREATE INDEX device_authorization_expires ON device_authorization USING btree (date_expires);

create table email_change (
  hash bytea not null,
  undo_hash bytea not null,
  user_id bigint not null,
  old_email text collate "C" not null,
  new_email text not null,
  date_created timestamp with time zone not null,
  date_expires timestamp with time zone not null,
  date_changed timestamp with time zone,
  date_undo_expires timestamp with time zone not null,
  constraint email_change_check CHECK ((date_expires > date_created)),
  constraint email_change_check1 CHECK ((date_undo_expires > date_created)),
  constraint email_change_hash_check CHECK ((length(hash) = 32)),
  constraint email_change_new_email_check CHECK (((length(new_email) >= 3) AND (length(new_email) <= 254))),
  constraint email_change_old_email_check CHECK (((length(old_email) >= 3) AND (length(old_email) <= 254))),
  constraint email_change_pkey PRIMARY KEY (hash),
  constraint email_change_undo_hash_check CHECK ((length(undo_hash) = 32)),
  constraint email_change_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX email_change_former ON email_change USING btree (old_email) WHERE (date_changed IS NOT NULL);
CREATE UNIQUE INDEX email_change_undo ON email_change USING btree (undo_hash);
CREATE INDEX email_change_undo_expires ON email_change USING btree (date_undo_expires);
CREATE INDEX email_change_user ON email_change USING btree (user_id, date_created);

create table erased_chain (
  shard smallint not null,
  id bigint not null,
  store_id bigint not null,
  event_id bigint,
  step_id bigint,
  date_erased timestamp with time zone not null,
  constraint erased_chain_check CHECK (((event_id IS NOT NULL) OR (step_id IS NOT NULL))),
  constraint erased_chain_pkey PRIMARY KEY (shard, id)
);

create table erased_customer (
  shard smallint not null,
  store_id bigint not null,
  id text collate "C" not null,
  date_erased timestamp with time zone not null,
  after_type text default ''::text not null,
  after_id text default ''::text not null,
  before_event_id bigint,
  constraint erased_customer_id_check CHECK (((length(id) >= 1) AND (length(id) <= 64))),
  constraint erased_customer_pkey PRIMARY KEY (shard, store_id, id)
);

create table erased_event (
  shard smallint not null,
  id bigint not null,
  store_id bigint not null,
  date_erased timestamp with time zone not null,
  constraint erased_event_pkey PRIMARY KEY (shard, id)
);
CREATE INDEX erased_event_date ON erased_event USING btree (date_erased);

create table erased_resource (
  shard smallint not null,
  store_id bigint not null,
  type text collate "C" not null,
  id text collate "C" not null,
  version integer not null,
  step_id bigint,
  date_erased timestamp with time zone,
  constraint erased_resource_pkey PRIMARY KEY (shard, store_id, type, id),
  constraint erased_resource_version_check CHECK ((version > 0))
);

create table erased_store (
  shard smallint not null,
  id bigint not null,
  date_erased timestamp with time zone not null,
  constraint erased_store_check CHECK (((id > 0) AND ((id % (256)::bigint) = shard))),
  constraint erased_store_pkey PRIMARY KEY (shard, id),
  constraint erased_store_shard_check CHECK (((shard >= 0) AND (shard <= 255)))
);

create table event (
  shard smallint not null,
  id bigint not null,
  store_id bigint not null,
  resource_type text not null,
  resource_id text not null,
  action text not null,
  version integer not null,
  nonce bigint not null,
  time_zone text not null,
  base_url text not null,
  date_created timestamp with time zone not null,
  body text not null,
  previous_id bigint,
  trace_context text,
  constraint event_pkey PRIMARY KEY (shard, store_id, id) INCLUDE (date_created, resource_type, action)
) partition by RANGE (id);

create table external_identity (
  id bigint not null,
  issuer text collate "C" not null,
  subject text collate "C" not null,
  user_id bigint not null,
  date_created timestamp with time zone not null,
  date_used timestamp with time zone not null,
  constraint external_identity_issuer_check CHECK (((length(issuer) >= 1) AND (length(issuer) <= 2000))),
  constraint external_identity_pkey PRIMARY KEY (id),
  constraint external_identity_subject_check CHECK (((length(subject) >= 1) AND (length(subject) <= 255))),
  constraint external_identity_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX external_identity_subject ON external_identity USING btree (issuer, subject);
CREATE INDEX external_identity_user ON external_identity USING btree (user_id);

create table external_key (
  client bigint not null,
  resource text collate "C" not null,
  key text collate "C" not null,
  resource_id bigint,
  constraint external_key_client_fkey FOREIGN KEY (client) REFERENCES client(id) ON DELETE CASCADE,
  constraint external_key_key_check CHECK (((length(key) >= 1) AND (length(key) <= 64))),
  constraint external_key_pkey PRIMARY KEY (client, resource, key),
  constraint external_key_resource_check CHECK ((resource = ANY (ARRAY['store'::text, 'user'::text, 'client'::text])))
);
CREATE UNIQUE INDEX external_key_resource ON external_key USING btree (resource, resource_id, client);

create table idempotency_key (
  scope bytea not null,
  body_hash bytea not null,
  answer bytea,
  date_created timestamp with time zone not null,
  shard smallint,
  constraint idempotency_key_body_hash_check CHECK ((length(body_hash) = 32)),
  constraint idempotency_key_pkey PRIMARY KEY (scope),
  constraint idempotency_key_scope_check CHECK ((length(scope) = 32)),
  constraint idempotency_key_shard_check CHECK (((shard >= 0) AND (shard <= 255)))
) replica identity full;
CREATE INDEX idempotency_key_created ON idempotency_key USING btree (date_created);

create table invitation (
  shard smallint not null,
  id bigint not null,
  store_id bigint not null,
  hash bytea not null,
  mailed_hash bytea,
  email text,
  role text not null,
  created_by bigint,
  date_created timestamp with time zone not null,
  date_expires timestamp with time zone not null,
  constraint invitation_check CHECK (((mailed_hash IS NULL) OR (email IS NOT NULL))),
  constraint invitation_check1 CHECK ((date_expires > date_created)),
  constraint invitation_email_check CHECK (((length(email) >= 3) AND (length(email) <= 254))),
  constraint invitation_hash_check CHECK ((length(hash) = 32)),
  constraint invitation_mailed_hash_check CHECK ((length(mailed_hash) = 32)),
  constraint invitation_pkey PRIMARY KEY (shard, id),
  constraint invitation_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'member'::text]))),
  constraint invitation_shard_store_id_created_by_fkey FOREIGN KEY (shard, store_id, created_by) REFERENCES membership(shard, store_id, user_id) ON DELETE CASCADE,
  constraint invitation_shard_store_id_fkey FOREIGN KEY (shard, store_id) REFERENCES store(shard, id) ON DELETE CASCADE
);
CREATE INDEX invitation_creator ON invitation USING btree (shard, store_id, created_by);
CREATE INDEX invitation_email ON invitation USING btree (email) WHERE (email IS NOT NULL);
CREATE INDEX invitation_expires ON invitation USING btree (date_expires);
CREATE UNIQUE INDEX invitation_hash ON invitation USING btree (hash);
CREATE UNIQUE INDEX invitation_mailed_hash ON invitation USING btree (mailed_hash) WHERE (mailed_hash IS NOT NULL);

create table membership (
  shard smallint not null,
  store_id bigint not null,
  user_id bigint not null,
  role text not null,
  date_created timestamp with time zone not null,
  constraint membership_pkey PRIMARY KEY (shard, store_id, user_id),
  constraint membership_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'member'::text]))),
  constraint membership_shard_store_id_fkey FOREIGN KEY (shard, store_id) REFERENCES store(shard, id) ON DELETE CASCADE,
  constraint membership_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX membership_user ON membership USING btree (user_id);

create table moved_shard (
  shard smallint not null,
  fence bigint not null,
  date_switched timestamp with time zone,
  constraint moved_shard_pkey PRIMARY KEY (shard),
  constraint moved_shard_shard_check CHECK (((shard >= 0) AND (shard <= 255)))
);

create table operator_hour (
  is_only boolean default true not null,
  counted_until timestamp with time zone not null,
  constraint operator_hour_is_only_check CHECK (is_only),
  constraint operator_hour_pkey PRIMARY KEY (is_only)
);

create table operator_outbox (
  id bigint generated always as identity not null,
  action text not null,
  body json not null,
  date_created timestamp with time zone not null,
  constraint operator_outbox_action_check CHECK (((length(action) >= 1) AND (length(action) <= 100))),
  constraint operator_outbox_pkey PRIMARY KEY (id)
);
CREATE INDEX operator_outbox_created ON operator_outbox USING btree (date_created);

create table outbox (
  id bigint generated always as identity not null,
  database smallint not null,
  shard smallint,
  kind text not null,
  body json not null,
  date_created timestamp with time zone default now() not null,
  constraint outbox_database_fkey FOREIGN KEY (database) REFERENCES shard_database(id),
  constraint outbox_kind_check CHECK ((kind = ANY (ARRAY['store'::text, 'changelog'::text, 'access'::text, 'resume'::text, 'app'::text]))),
  constraint outbox_pkey PRIMARY KEY (id),
  constraint outbox_shard_check CHECK (((shard >= 0) AND (shard <= 255)))
);
CREATE INDEX outbox_by_database ON outbox USING btree (database, id);

create table outbox_applied (
  id bigint not null,
  constraint outbox_applied_pkey PRIMARY KEY (id)
);

create table passkey (
  id bigint not null,
  user_id bigint not null,
  credential_id bytea not null,
  public_key bytea not null,
  sign_count bigint not null,
  transports text[] not null,
  name text not null,
  date_created timestamp with time zone not null,
  date_used timestamp with time zone,
  constraint passkey_credential_id_check CHECK (((length(credential_id) >= 1) AND (length(credential_id) <= 1023))),
  constraint passkey_name_check CHECK (((length(name) >= 1) AND (length(name) <= 60))),
  constraint passkey_pkey PRIMARY KEY (id),
  constraint passkey_sign_count_check CHECK ((sign_count >= 0)),
  constraint passkey_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX passkey_credential ON passkey USING btree (credential_id);
CREATE INDEX passkey_user ON passkey USING btree (user_id);

create table password_reset (
  hash bytea not null,
  user_id bigint not null,
  date_created timestamp with time zone not null,
  date_expires timestamp with time zone not null,
  constraint password_reset_hash_check CHECK ((length(hash) = 32)),
  constraint password_reset_pkey PRIMARY KEY (hash),
  constraint password_reset_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX password_reset_expires ON password_reset USING btree (date_expires);
CREATE INDEX password_reset_user ON password_reset USING btree (user_id);

create table portal_session (
  hash bytea not null,
  user_id bigint not null,
  store_id bigint not null,
  shard smallint generated always as (((store_id % (256)::bigint))::smallint) stored not null,
  client bigint not null,
  is_used boolean default false not null,
  is_framed boolean default false not null,
  date_created timestamp with time zone not null,
  date_expires timestamp with time zone not null,
  constraint portal_session_check CHECK ((is_used OR (NOT is_framed))),
  constraint portal_session_client_fkey FOREIGN KEY (client) REFERENCES client(id) ON DELETE CASCADE,
  constraint portal_session_hash_check CHECK ((length(hash) = 32)),
  constraint portal_session_pkey PRIMARY KEY (hash),
  constraint portal_session_shard_store_id_user_id_fkey FOREIGN KEY (shard, store_id, user_id) REFERENCES membership(shard, store_id, user_id) ON DELETE CASCADE,
  constraint portal_session_store_id_check CHECK ((store_id > 0))
);
CREATE INDEX portal_session_client ON portal_session USING btree (client);
CREATE INDEX portal_session_expires ON portal_session USING btree (date_expires);
CREATE INDEX portal_session_user ON portal_session USING btree (user_id);

create table publish_key (
  shard smallint not null,
  store_id bigint not null,
  key text collate "C" not null,
  fingerprint bytea not null,
  event_ids bigint[] not null,
  date_created timestamp with time zone not null,
  constraint publish_key_event_ids_check CHECK ((cardinality(event_ids) > 0)),
  constraint publish_key_fingerprint_check CHECK ((length(fingerprint) = 32)),
  constraint publish_key_key_check CHECK (((length(key) >= 1) AND (length(key) <= 255))),
  constraint publish_key_pkey PRIMARY KEY (shard, store_id, key)
);
CREATE INDEX publish_key_created ON publish_key USING btree (date_created);

create table recovery (
  shard smallint not null,
  id bigint not null,
  store_id bigint not null,
  webhook_id bigint not null,
  epoch integer not null,
  since timestamp with time zone not null,
  state text not null,
  older_transactions text[] not null,
  after_event_id bigint default 0 not null,
  until_event_id bigint,
  events_total integer default 0 not null,
  events_seen integer default 0 not null,
  events_recovered integer default 0 not null,
  date_created timestamp with time zone not null,
  date_modified timestamp with time zone not null,
  date_ended timestamp with time zone,
  until timestamp with time zone,
  event text,
  only_failed boolean default false not null,
  resource_id text,
  response_code integer,
  response_body text,
  loaded_type text collate "C",
  after_resource_id text collate "C" default ''::text not null,
  constraint recovery_after_resource_id_check CHECK ((length(after_resource_id) <= 255)),
  constraint recovery_check CHECK (((id > 0) AND ((id % (256)::bigint) = shard))),
  constraint recovery_check1 CHECK (((store_id % (256)::bigint) = shard)),
  constraint recovery_check2 CHECK (((date_ended IS NULL) = (state = ANY (ARRAY['waiting'::text, 'running'::text])))),
  constraint recovery_check3 CHECK (((state <> 'running'::text) OR (until_event_id IS NOT NULL))),
  constraint recovery_check4 CHECK (((loaded_type IS NOT NULL) OR (after_resource_id = ''::text))),
  constraint recovery_events_recovered_check CHECK ((events_recovered >= 0)),
  constraint recovery_events_seen_check CHECK ((events_seen >= 0)),
  constraint recovery_events_total_check CHECK ((events_total >= 0)),
  constraint recovery_pkey PRIMARY KEY (shard, id),
  constraint recovery_resource_id_check CHECK ((length(resource_id) <= 255)),
  constraint recovery_response_body_check CHECK ((length(response_body) <= 1000)),
  constraint recovery_response_code_check CHECK (((response_code >= 100) AND (response_code <= 999))),
  constraint recovery_shard_webhook_id_fkey FOREIGN KEY (shard, webhook_id) REFERENCES webhook(shard, id) ON DELETE CASCADE,
  constraint recovery_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'running'::text, 'finished'::text, 'cancelled'::text, 'stopped'::text])))
);
CREATE INDEX recovery_ended ON recovery USING btree (date_ended) WHERE (date_ended IS NOT NULL);
CREATE UNIQUE INDEX recovery_open ON recovery USING btree (shard, webhook_id) WHERE (state = ANY (ARRAY['waiting'::text, 'running'::text]));
CREATE INDEX recovery_webhook ON recovery USING btree (shard, webhook_id, id DESC);

create table recovery_code (
  user_id bigint not null,
  hash bytea not null,
  constraint recovery_code_hash_check CHECK ((length(hash) = 32)),
  constraint recovery_code_pkey PRIMARY KEY (user_id, hash),
  constraint recovery_code_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table refresh_token (
  hash bytea not null,
  grant_id bigint not null,
  date_expires timestamp with time zone not null,
  rotated_at timestamp with time zone,
  successor_used boolean,
  predecessor bytea,
  constraint refresh_token_grant_id_fkey FOREIGN KEY (grant_id) REFERENCES access_grant(id) ON DELETE CASCADE,
  constraint refresh_token_hash_check CHECK ((length(hash) = 32)),
  constraint refresh_token_pkey PRIMARY KEY (hash),
  constraint refresh_token_predecessor_check CHECK ((length(predecessor) = 32))
);
CREATE INDEX refresh_token_expires ON refresh_token USING btree (date_expires);
CREATE INDEX refresh_token_grant ON refresh_token USING btree (grant_id);

create table registration_token (
  hash bytea not null,
  date_created timestamp with time zone not null,
  date_expires timestamp with time zone not null,
  constraint registration_token_hash_check CHECK ((length(hash) = 32)),
  constraint registration_token_pkey PRIMARY KEY (hash)
);
CREATE INDEX registration_token_expires ON registration_token USING btree (date_expires);

create table resource (
  shard smallint not null,
  store_id bigint not null,
  type text collate "C" not null,
  id text collate "C" not null,
  version integer not null,
  modified_at timestamp with time zone not null,
  event_id bigint not null,
  time_zone text not null,
  base_url text not null,
  body text not null,
  is_dated boolean default true not null,
  dated_at timestamp with time zone,
  superseded_dated_at timestamp with time zone,
  head_event_id bigint,
  superseded_event_id bigint,
  step_id bigint,
  modified_day integer,
  parent_id text collate "C",
  date_deleted timestamp with time zone,
  constraint resource_id_check CHECK (((length(id) >= 1) AND (length(id) <= 64))),
  constraint resource_pkey PRIMARY KEY (shard, store_id, type, id),
  constraint resource_version_check CHECK ((version > 0))
) with (fillfactor=80);
CREATE INDEX resource_deleted ON resource USING btree (shard, store_id, type) WHERE ((date_deleted IS NOT NULL) AND (length(type) > 0));
CREATE INDEX resource_listed ON resource USING btree (shard, store_id, type, length(id), id) WHERE (length(type) > 0);
CREATE INDEX resource_modified ON resource USING btree (shard, store_id, type, modified_day) WHERE (length(type) > 0);
CREATE INDEX resource_parent ON resource USING btree (shard, store_id, type, parent_id) WHERE (parent_id IS NOT NULL);

create table revenue_book (
  shard smallint not null,
  store_id bigint not null,
  open_day date not null,
  next_day date not null,
  due_at timestamp with time zone not null,
  constraint revenue_book_check CHECK ((next_day <= open_day)),
  constraint revenue_book_pkey PRIMARY KEY (shard, store_id)
);
CREATE INDEX revenue_book_due ON revenue_book USING btree (shard, due_at);

create table revenue_day (
  shard smallint not null,
  store_id bigint not null,
  day date not null,
  resource_id text not null,
  constraint revenue_day_pkey PRIMARY KEY (shard, store_id, day)
);

create table schema_migration (
  version integer not null,
  name text not null,
  hash text not null,
  date_applied timestamp with time zone not null,
  constraint schema_migration_pkey PRIMARY KEY (version)
);

create table sealing_key (
  key_id bytea not null,
  constraint sealing_key_key_id_check CHECK ((length(key_id) = 4)),
  constraint sealing_key_pkey PRIMARY KEY (key_id)
);
CREATE UNIQUE INDEX sealing_key_one ON sealing_key USING btree ((true));

create table session (
  hash bytea not null,
  user_id bigint not null,
  date_created timestamp with time zone not null,
  date_expires timestamp with time zone not null,
  date_verified timestamp with time zone,
  id bigint generated always as identity not null,
  address text,
  user_agent text,
  date_seen timestamp with time zone,
  constraint session_address_check CHECK ((length(address) <= 64)),
  constraint session_hash_check CHECK ((length(hash) = 32)),
  constraint session_pkey PRIMARY KEY (hash),
  constraint session_user_agent_check CHECK ((length(user_agent) <= 512)),
  constraint session_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX session_expires ON session USING btree (date_expires);
CREATE UNIQUE INDEX session_id ON session USING btree (id);
CREATE INDEX session_user_id ON session USING btree (user_id);

create table shard_database (
  id smallint not null,
  name text collate "C" not null,
  identity uuid not null,
  address bytea,
  constraint shard_database_check CHECK (((address IS NULL) = (id = 0))),
  constraint shard_database_id_check CHECK ((id >= 0)),
  constraint shard_database_identity_key UNIQUE (identity),
  constraint shard_database_name_key UNIQUE (name),
  constraint shard_database_pkey PRIMARY KEY (id)
);

create table shard_lease (
  shard smallint not null,
  owner bigint,
  fence bigint default 0 not null,
  deaths smallint default 0 not null,
  constraint shard_lease_deaths_check CHECK ((deaths >= 0)),
  constraint shard_lease_pkey PRIMARY KEY (shard),
  constraint shard_lease_shard_check CHECK (((shard >= 0) AND (shard <= 255)))
);

create table shard_map (
  is_only boolean default true not null,
  version bigint not null,
  date_created timestamp with time zone default clock_timestamp() not null,
  constraint shard_map_is_only_check CHECK (is_only),
  constraint shard_map_pkey PRIMARY KEY (is_only),
  constraint shard_map_version_check CHECK ((version > 0))
);

create table shard_move (
  id integer generated always as identity not null,
  shards smallint[] not null,
  source smallint not null,
  target smallint not null,
  date_started timestamp with time zone default now() not null,
  date_switched timestamp with time zone,
  date_ended timestamp with time zone,
  constraint shard_move_check CHECK ((target <> source)),
  constraint shard_move_check1 CHECK ((date_ended >= date_switched)),
  constraint shard_move_pkey PRIMARY KEY (id),
  constraint shard_move_shards_check CHECK ((cardinality(shards) > 0)),
  constraint shard_move_source_fkey FOREIGN KEY (source) REFERENCES shard_database(id),
  constraint shard_move_target_fkey FOREIGN KEY (target) REFERENCES shard_database(id)
);
CREATE UNIQUE INDEX shard_move_open ON shard_move USING btree ((true)) WHERE (date_ended IS NULL);

create table shard_owner (
  shard smallint not null,
  database smallint not null,
  constraint shard_owner_database_fkey FOREIGN KEY (database) REFERENCES shard_database(id),
  constraint shard_owner_pkey PRIMARY KEY (shard),
  constraint shard_owner_shard_check CHECK (((shard >= 0) AND (shard <= 255)))
);

create table sign_up (
  hash bytea not null,
  email text collate "C" not null,
  date_created timestamp with time zone not null,
  date_expires timestamp with time zone not null,
  constraint sign_up_check CHECK ((date_expires > date_created)),
  constraint sign_up_email_check CHECK (((length(email) >= 3) AND (length(email) <= 254))),
  constraint sign_up_hash_check CHECK ((length(hash) = 32)),
  constraint sign_up_pkey PRIMARY KEY (hash)
);
CREATE INDEX sign_up_email ON sign_up USING btree (email);
CREATE INDEX sign_up_expires ON sign_up USING btree (date_expires);

create table store (
  shard smallint not null,
  id bigint not null,
  name text not null,
  domain text not null,
  email text not null,
  time_zone text not null,
  date_created timestamp with time zone not null,
  date_modified timestamp with time zone not null,
  revision integer default 1 not null,
  subscription_events text default 'derived'::text not null,
  second_factor text default 'optional'::text not null,
  sandbox_of bigint,
  suspended_reason text,
  constraint store_check CHECK (((id > 0) AND ((id % (256)::bigint) = shard))),
  constraint store_domain_check CHECK (((length(domain) >= 1) AND (length(domain) <= 253))),
  constraint store_name_check CHECK (((length(name) >= 1) AND (length(name) <= 255))),
  constraint store_pkey PRIMARY KEY (shard, id),
  constraint store_second_factor_check CHECK ((second_factor = ANY (ARRAY['optional'::text, 'required'::text]))),
  constraint store_shard_check CHECK (((shard >= 0) AND (shard <= 255))),
  constraint store_subscription_events_check CHECK ((subscription_events = ANY (ARRAY['derived'::text, 'published'::text]))),
  constraint store_suspended_reason_check CHECK (((length(suspended_reason) >= 1) AND (length(suspended_reason) <= 200)))
);
CREATE UNIQUE INDEX store_sandbox_of ON store USING btree (sandbox_of) WHERE (sandbox_of IS NOT NULL);

create table subscription_term (
  shard smallint not null,
  store_id bigint not null,
  subscription_id text collate "C" not null,
  day date not null,
  currency text not null,
  monthly numeric(24,6) not null,
  is_active boolean not null,
  start_day date,
  end_day date,
  constraint subscription_term_currency_check CHECK ((currency ~ '^[A-Z]{3}$'::text)),
  constraint subscription_term_monthly_check CHECK ((monthly >= (0)::numeric)),
  constraint subscription_term_pkey PRIMARY KEY (shard, store_id, subscription_id, day),
  constraint subscription_term_subscription_id_check CHECK (((length(subscription_id) >= 1) AND (length(subscription_id) <= 64)))
);

create table throttle (
  key bytea not null,
  full_at timestamp with time zone not null,
  constraint throttle_key_check CHECK ((length(key) = 32)),
  constraint throttle_pkey PRIMARY KEY (key)
);
CREATE INDEX throttle_full_at ON throttle USING btree (full_at);

create table used_challenge (
  hash bytea not null,
  date_expires timestamp with time zone not null,
  constraint used_challenge_hash_check CHECK ((length(hash) = 32)),
  constraint used_challenge_pkey PRIMARY KEY (hash)
);
CREATE INDEX used_challenge_expires ON used_challenge USING btree (date_expires);

create table users (
  id bigint not null,
  email text not null,
  password_hash text not null,
  date_created timestamp with time zone not null,
  date_disabled timestamp with time zone,
  is_email_verified boolean default true not null,
  has_password boolean default true not null,
  is_email_of_platform boolean default false not null,
  revision integer default 0 not null,
  is_operator boolean default false not null,
  disabled_reason text,
  constraint users_disabled_reason_check CHECK (((length(disabled_reason) >= 1) AND (length(disabled_reason) <= 200))),
  constraint users_email_check CHECK (((length(email) >= 3) AND (length(email) <= 254))),
  constraint users_id_check CHECK ((id > 0)),
  constraint users_pkey PRIMARY KEY (id)
);
CREATE UNIQUE INDEX users_address ON users USING btree (email);

create table webhook (
  shard smallint not null,
  id bigint not null,
  store_id bigint not null,
  client bigint,
  name text not null,
  format text not null,
  version text not null,
  url text,
  query text,
  encryption_key bytea,
  event_resource text,
  events text[] not null,
  is_active boolean not null,
  epoch integer default 0 not null,
  headers jsonb not null,
  rate_per_second integer,
  retry_profile text not null,
  revision integer default 1 not null,
  date_created timestamp with time zone not null,
  date_modified timestamp with time zone not null,
  next_encryption_key bytea,
  rotation_ends_at timestamp with time zone,
  is_held boolean default false not null,
  listened_at timestamp with time zone,
  user_id bigint,
  inactive_reason text,
  request_secrets bytea,
  filter text,
  filter_id bigint,
  ordering text,
  is_for_app boolean default false not null,
  app_scope text,
  request_since integer default 0 not null,
  rotated_at timestamp with time zone,
  constraint webhook_app_check CHECK (
CASE
    WHEN is_for_app THEN ((client IS NOT NULL) AND (NOT is_held))
    ELSE (app_scope IS NULL)
END),
  constraint webhook_check CHECK (((id > 0) AND ((id % (256)::bigint) = shard))),
  constraint webhook_check1 CHECK (((store_id % (256)::bigint) = shard)),
  constraint webhook_events_check CHECK (((event_resource IS NULL) = (cardinality(events) = 0))),
  constraint webhook_filter_check CHECK ((((length(filter) >= 1) AND (length(filter) <= 1000)) AND ((filter IS NULL) = (filter_id IS NULL)))),
  constraint webhook_format_check CHECK ((format = ANY (ARRAY['json'::text, 'partner_automation'::text, 'partner_sitebuilder'::text, 'cloudevents'::text, 'cloudevents_binary'::text]))),
  constraint webhook_held_check CHECK (((is_held = (listened_at IS NOT NULL)) AND (NOT (is_held AND (url IS NOT NULL))))),
  constraint webhook_inactive_reason_check CHECK ((inactive_reason = ANY (ARRAY['failures'::text, 'gone'::text, 'access_ended'::text, 'suspended'::text]))),
  constraint webhook_key_check CHECK (((format <> 'json'::text) OR (encryption_key IS NOT NULL) OR is_for_app)),
  constraint webhook_name_check CHECK (((length(name) >= 1) AND (length(name) <= 255))),
  constraint webhook_ordering_check CHECK ((ordering = 'resource'::text)),
  constraint webhook_pkey PRIMARY KEY (shard, id),
  constraint webhook_query_check CHECK (((length(query) >= 1) AND (length(query) <= 1000))),
  constraint webhook_rate_per_second_check CHECK (((rate_per_second >= 1) AND (rate_per_second <= 1000))),
  constraint webhook_retry_profile_check CHECK ((retry_profile = ANY (ARRAY['hour'::text, 'long'::text]))),
  constraint webhook_rotation_check CHECK ((((next_encryption_key IS NULL) = (rotation_ends_at IS NULL)) AND ((next_encryption_key IS NULL) OR (encryption_key IS NOT NULL)))),
  constraint webhook_scope_check CHECK (((NOT is_for_app) OR (NOT is_active) OR (event_resource = 'app'::text) OR ((COALESCE(string_to_array(app_scope, ' '::text), '{}'::text[]) && ARRAY['user_full_access'::text, 'store_full_access'::text, 'store_read'::text, 'webhooks'::text, 'events_read'::text, (event_resource || ':read'::text)]) AND (event_resource <> 'operator_event'::text)))),
  constraint webhook_url_check CHECK (((length(url) >= 1) AND (length(url) <= 1000)))
);
CREATE UNIQUE INDEX webhook_for_app ON webhook USING btree (client, shard, store_id, event_resource) WHERE is_for_app;
CREATE INDEX webhook_listened ON webhook USING btree (listened_at) WHERE is_held;
CREATE INDEX webhook_maker ON webhook USING btree (client, user_id) WHERE (client IS NOT NULL);
CREATE INDEX webhook_rotation_ends ON webhook USING btree (rotation_ends_at) WHERE (rotation_ends_at IS NOT NULL);
CREATE INDEX webhook_store ON webhook USING btree (shard, store_id, id);
CREATE INDEX webhook_uninstalled ON webhook USING btree (date_modified) WHERE (is_for_app AND (app_scope IS NULL));
CREATE INDEX webhook_user ON webhook USING btree (user_id) WHERE (client IS NOT NULL);

create table webhook_hour (
  shard smallint not null,
  webhook_id bigint not null,
  hour timestamp with time zone not null,
  outcome text collate "C" not null,
  attempts bigint not null,
  durations bigint[] not null,
  constraint webhook_hour_attempts_check CHECK ((attempts > 0)),
  constraint webhook_hour_check CHECK (((webhook_id % (256)::bigint) = shard)),
  constraint webhook_hour_pkey PRIMARY KEY (shard, webhook_id, hour, outcome)
);
CREATE INDEX webhook_hour_ended ON webhook_hour USING btree (hour);

create table webhook_state (
  shard smallint not null,
  webhook_id bigint not null,
  epoch integer not null,
  consecutive_failures integer not null,
  first_failure_at timestamp with time zone,
  paused_until timestamp with time zone,
  probe_at timestamp with time zone,
  is_condemned boolean default false not null,
  is_warned boolean default false not null,
  constraint webhook_state_check CHECK (((consecutive_failures = 0) = (first_failure_at IS NULL))),
  constraint webhook_state_consecutive_failures_check CHECK ((consecutive_failures >= 0)),
  constraint webhook_state_pkey PRIMARY KEY (shard, webhook_id)
) with (fillfactor=50);
CREATE INDEX webhook_state_condemned ON webhook_state USING btree (shard) WHERE is_condemned;

create table webhook_version (
  shard smallint not null,
  webhook_id bigint not null,
  since integer not null,
  revision integer not null,
  format text not null,
  url text,
  query text,
  event_resource text,
  headers jsonb not null,
  request_secrets bytea,
  has_key boolean not null,
  is_rekeyed boolean not null,
  date_replaced timestamp with time zone not null,
  constraint webhook_version_check CHECK ((since <= revision)),
  constraint webhook_version_pkey PRIMARY KEY (shard, webhook_id, revision),
  constraint webhook_version_shard_webhook_id_fkey FOREIGN KEY (shard, webhook_id) REFERENCES webhook(shard, id) ON DELETE CASCADE
);
CREATE INDEX webhook_version_replaced ON webhook_version USING btree (date_replaced);

create table worker (
  id bigint not null,
  beat bigint not null,
  date_started timestamp with time zone not null,
  backend_pid integer,
  backend_started timestamp with time zone,
  constraint worker_pkey PRIMARY KEY (id)
);

create view attempt_log as
 SELECT attempt.shard,
    attempt.delivery_id,
    attempt.n,
    attempt.store_id,
    attempt.webhook_id,
    attempt.event_id,
    attempt.date_started,
    attempt.duration_ms,
    attempt.outcome,
    attempt.response_code,
    attempt.response_headers,
    attempt.response_body,
    attempt.webhook_revision
   FROM attempt
UNION ALL
 SELECT delivery_done.shard,
    delivery_done.id AS delivery_id,
    delivery_done.attempts AS n,
    delivery_done.store_id,
    delivery_done.webhook_id,
    delivery_done.event_id,
    delivery_done.date_started,
    delivery_done.duration_ms,
    delivery_done.outcome,
    delivery_done.response_code,
    delivery_done.response_headers,
    delivery_done.response_body,
    delivery_done.webhook_revision
   FROM delivery_done;

CREATE OR REPLACE FUNCTION enqueue_app_webhook()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into outbox (database, kind, body)
  select id, 'app', json_build_object('client', coalesce(new.client, old.client)) from shard_database where id <> 0 order by id;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION enqueue_store()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  -- Processes read the map each second. One with the old map would write the rows of the new store into this database.
  if tg_op = 'INSERT' and exists (select from shard_owner where shard = new.shard and database <> 0)
    and exists (select from shard_map where date_created > clock_timestamp() - interval '3 seconds')
  then
    raise exception 'shard % has just got another database: try again in a few seconds', new.shard using errcode = 'HS001';
  end if;
  insert into outbox (database, shard, kind, body)
  select database, shard, 'store', json_build_object('store_id', coalesce(new.id, old.id))
  from shard_owner where shard = coalesce(new.shard, old.shard) and database <> 0;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION keep_webhook_version()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  delete from webhook_version v
  where v.shard = old.shard and v.webhook_id = old.id and v.revision <= (
    select n.revision from webhook_version n where n.shard = old.shard and n.webhook_id = old.id
    order by n.revision desc offset 99 limit 1
  );
  insert into webhook_version (shard, webhook_id, since, revision, format, url, query, event_resource, headers, request_secrets, has_key,
    is_rekeyed, date_replaced)
  values (old.shard, old.id, old.request_since, old.revision, old.format, old.url, old.query, old.event_resource, old.headers,
    old.request_secrets, old.is_for_app or old.encryption_key is not null,
    (old.encryption_key, old.next_encryption_key) is distinct from (new.encryption_key, new.next_encryption_key), new.date_modified);
  new.request_since := new.revision;
  return new;
end $function$
;

CREATE OR REPLACE FUNCTION moment_of(written text)
 RETURNS timestamp with time zone
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE
AS $function$
begin
  if written not like '____-__-__%' or written like '0000%' or written !~ ('^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])'
    || '([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?(Z|[+-](0[0-9]|1[0-4]):?[0-5][0-9])?)?$') then
    return null;
  end if;
  -- 30 February is none.
  if substr(written, 9, 2) > '28' and substr(written, 9, 2)::int
    > extract(day from make_date(substr(written, 1, 4)::int, substr(written, 6, 2)::int, 1) + interval '1 month - 1 day') then
    return null;
  end if;
  return written::timestamptz;
end
$function$
;

CREATE OR REPLACE FUNCTION number_of(written text)
 RETURNS numeric
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
begin
  if written !~ '^-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9][0-9]?[0-9]?)?$' or length(written) > 60 then
    return null;
  end if;
  return written::numeric;
end
$function$
;

CREATE OR REPLACE FUNCTION passes_filter(filter bigint, known bigint[], passed bigint[])
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  if filter = any (known) then
    return filter = any (passed);
  end if;
  raise exception 'a filter is not known to the publisher' using errcode = 'HL002';
end
$function$
;

CREATE OR REPLACE FUNCTION refuse_moved()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  moving smallint := coalesce(new.shard, old.shard);
  moved  moved_shard;
begin
  perform pg_advisory_xact_lock_shared(7209005, tg_argv[0]::int);
  select * into moved from moved_shard where shard = moving;
  if not found or (tg_op = 'DELETE' and moved.date_switched is not null) then
    return coalesce(new, old);
  end if;
  -- The home database keeps the rows of all stores, and sends their changes to the owner of the shard.
  if tg_table_name in ('store', 'erased_store') and exists (select from shard_owner where shard = moving and database <> 0) then
    return coalesce(new, old);
  end if;
  raise exception 'shard % moves to another database', moving using errcode = 'HS001';
end $function$
;

CREATE OR REPLACE FUNCTION unless_erased(shards smallint[], stores bigint[], types text[], ids text[], floors integer[])
 RETURNS boolean
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (
    select from unnest(shards, stores, types, ids, floors) as n (shard, store_id, type, id, floor)
    cross join lateral (
      select version from erased_resource
      where shard = n.shard and store_id = n.store_id and type = n.type and id = n.id limit 1
    ) as e
    where e.version > n.floor
  ) then
    raise exception 'overtaken by an erasure of the same resource' using errcode = 'HL001';
  end if;
  return true;
end
$function$
;

CREATE OR REPLACE FUNCTION unless_overtaken(done bigint, wanted bigint)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  if done < wanted then
    raise exception 'overtaken by a publish of the same idempotency key' using errcode = 'HL001';
  end if;
  return true;
end
$function$
;

CREATE OR REPLACE FUNCTION write_listed_columns()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  new.modified_day := (new.modified_at at time zone 'UTC')::date - date '2020-01-01';
  new.parent_id := left(
    case new.type
      when 'transaction' then new.body::json ->> 'customer_id'
      when 'subscription' then new.body::json ->> 'customer_id'
      when 'transaction_log' then new.body::json ->> 'transaction_id'
      when 'subscription_event' then new.body::json ->> 'subscription_id'
    end, 64);
  return new;
end
$function$
;

CREATE TRIGGER enqueue_app_webhook AFTER INSERT OR DELETE OR UPDATE ON app_webhook FOR EACH ROW EXECUTE FUNCTION enqueue_app_webhook();

CREATE TRIGGER enqueue_store AFTER INSERT OR DELETE OR UPDATE ON store FOR EACH ROW EXECUTE FUNCTION enqueue_store();

CREATE TRIGGER keep_version BEFORE UPDATE ON webhook FOR EACH ROW WHEN (((old.revision <> new.revision) AND ((((((((old.format IS DISTINCT FROM new.format) OR (old.url IS DISTINCT FROM new.url)) OR (old.query IS DISTINCT FROM new.query)) OR (old.event_resource IS DISTINCT FROM new.event_resource)) OR (old.headers IS DISTINCT FROM new.headers)) OR (old.request_secrets IS DISTINCT FROM new.request_secrets)) OR (old.encryption_key IS DISTINCT FROM new.encryption_key)) OR (old.next_encryption_key IS DISTINCT FROM new.next_encryption_key)))) EXECUTE FUNCTION keep_webhook_version();

CREATE TRIGGER list_changed BEFORE UPDATE OF type, modified_at, body ON resource FOR EACH ROW WHEN (((old.event_id = new.event_id) OR (current_setting('halcyon.writes_listed_columns'::text, true) IS DISTINCT FROM '1'::text))) EXECUTE FUNCTION write_listed_columns();

CREATE TRIGGER list_new BEFORE INSERT ON resource FOR EACH ROW WHEN ((new.modified_day IS NULL)) EXECUTE FUNCTION write_listed_columns();
