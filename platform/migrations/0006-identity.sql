-- API keys that users manage themselves, and the record of what operators did.

-- The key that took this one's place: a replaced key still works for its overlap, but no longer counts.
ALTER TABLE api_key ADD COLUMN replaced_by text REFERENCES api_key;

CREATE INDEX member_of_organization ON member (organization_id, id);

-- Usage is read newest first, of an organization or of one key, a page at a time.
DROP INDEX reservation_of_organization;
CREATE INDEX reservation_of_organization ON reservation (organization_id, created_at DESC, id DESC);
CREATE INDEX job_of_key ON job (key_id, created_at DESC, id DESC);
CREATE INDEX chat_request_of_key ON chat_request (key_id, created_at DESC, id DESC);

-- Which part of a wished key goes beyond the key that makes it; null: none.
CREATE FUNCTION api_key_excess(
  maker api_key, wanted_scopes text[], wanted_models text[], wanted_expiry timestamptz
) RETURNS text LANGUAGE sql IMMUTABLE RETURN CASE
  WHEN NOT wanted_scopes <@ maker.scopes THEN 'scopes'
  WHEN maker.allowed_models IS NOT NULL
    AND (wanted_models IS NULL OR NOT wanted_models <@ maker.allowed_models) THEN 'allowedModels'
  WHEN maker.expires_at IS NOT NULL
    AND (wanted_expiry IS NULL OR wanted_expiry > maker.expires_at) THEN 'expiresAt'
END;

CREATE FUNCTION text_array(list jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE RETURN CASE
  WHEN jsonb_typeof(list) = 'array' THEN ARRAY(SELECT jsonb_array_elements_text(list))
END;

CREATE FUNCTION unix_ms(at timestamptz) RETURNS bigint LANGUAGE sql STABLE RETURN
  round(extract(epoch FROM at) * 1000)::bigint;

CREATE FUNCTION timestamp_of_ms(ms bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE RETURN
  to_timestamp(ms / 1000.0);

CREATE FUNCTION api_key_meta(k api_key) RETURNS jsonb LANGUAGE sql STABLE RETURN
  jsonb_build_object('keyId', k.id, 'keyPrefix', k.prefix, 'name', k.name,
    'createdAt', unix_ms(k.created_at), 'expiresAt', unix_ms(k.expires_at),
    'lastUsedAt', unix_ms(k.last_used_at), 'scopes', to_jsonb(k.scopes),
    'allowedModels', to_jsonb(k.allowed_models));

-- Makes a key, under the lock of its user, so that racing creates are counted one after the other.
-- What a key of the user's makes is at most what that key may do; what is not said is taken from it.
-- {memberId, makerKeyId|null, id, name, prefix, mac (hex), scopes|null, allowedModels|null,
--  expiresAtMs|null, quota}
CREATE FUNCTION create_api_key(request jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  owner member; maker api_key; k api_key; at timestamptz; excess text;
  wanted_scopes text[] := text_array(request->'scopes');
  wanted_models text[] := text_array(request->'allowedModels');
  wanted_expiry timestamptz := timestamp_of_ms((request->>'expiresAtMs')::bigint);
BEGIN
  SELECT * INTO owner FROM member WHERE id = request->>'memberId' FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN jsonb_build_object('verdict', 'no_member'); END IF;
  at := clock_timestamp();
  IF wanted_expiry <= at THEN RETURN jsonb_build_object('verdict', 'expiry_past'); END IF;
  IF request->>'makerKeyId' IS NOT NULL THEN
    SELECT * INTO maker FROM api_key WHERE id = request->>'makerKeyId' AND member_id = owner.id
      AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > at);
    IF NOT FOUND THEN RETURN jsonb_build_object('verdict', 'maker_gone'); END IF;
    wanted_scopes := coalesce(wanted_scopes, maker.scopes);
    wanted_models := coalesce(wanted_models, maker.allowed_models);
    wanted_expiry := coalesce(wanted_expiry, maker.expires_at);
    excess := api_key_excess(maker, wanted_scopes, wanted_models, wanted_expiry);
    IF excess IS NOT NULL THEN
      RETURN jsonb_build_object('verdict', 'exceeds_maker', 'field', excess);
    END IF;
  END IF;
  IF (SELECT count(*) FROM api_key WHERE member_id = owner.id AND revoked_at IS NULL
      AND replaced_by IS NULL) >= (request->>'quota')::integer THEN
    RETURN jsonb_build_object('verdict', 'quota_reached');
  END IF;
  INSERT INTO api_key (id, organization_id, member_id, name, prefix, mac, scopes, allowed_models,
      created_at, expires_at)
    VALUES (request->>'id', owner.organization_id, owner.id, request->>'name', request->>'prefix',
      decode(request->>'mac', 'hex'), wanted_scopes, wanted_models,
      date_trunc('milliseconds', at), wanted_expiry)
    RETURNING * INTO k;
  RETURN jsonb_build_object('verdict', 'created', 'organizationId', k.organization_id,
    'meta', api_key_meta(k));
END $$;

-- A new key in the place of an old one, which works on for the overlap. At most as many keys as the
-- quota are in their overlap, so that rotations cannot pile up working keys.
-- {memberId, makerKeyId, keyId, id, prefix, mac (hex), expiresAtMs|null, overlapMs, quota}
CREATE FUNCTION rotate_api_key(request jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  owner member; maker api_key; old api_key; k api_key; at timestamptz; excess text;
  wanted_expiry timestamptz := timestamp_of_ms((request->>'expiresAtMs')::bigint);
BEGIN
  SELECT * INTO owner FROM member WHERE id = request->>'memberId' FOR NO KEY UPDATE;
  at := clock_timestamp();
  SELECT * INTO maker FROM api_key WHERE id = request->>'makerKeyId' AND member_id = owner.id
    AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > at);
  IF NOT FOUND THEN RETURN jsonb_build_object('verdict', 'maker_gone'); END IF;
  SELECT * INTO old FROM api_key WHERE id = request->>'keyId' AND member_id = owner.id
    AND revoked_at IS NULL AND (replaced_by IS NULL OR expires_at > at);
  IF NOT FOUND THEN RETURN jsonb_build_object('verdict', 'not_found'); END IF;
  IF old.replaced_by IS NOT NULL THEN RETURN jsonb_build_object('verdict', 'already_replaced'); END IF;
  wanted_expiry := coalesce(wanted_expiry, old.expires_at);
  IF wanted_expiry <= at THEN RETURN jsonb_build_object('verdict', 'expiry_past'); END IF;
  excess := api_key_excess(maker, old.scopes, old.allowed_models, wanted_expiry);
  IF excess IS NOT NULL THEN
    RETURN jsonb_build_object('verdict', 'exceeds_maker', 'field', excess);
  END IF;
  IF (SELECT count(*) FROM api_key WHERE member_id = owner.id AND revoked_at IS NULL
      AND replaced_by IS NOT NULL AND expires_at > at) >= (request->>'quota')::integer THEN
    RETURN jsonb_build_object('verdict', 'quota_reached');
  END IF;
  INSERT INTO api_key (id, organization_id, member_id, name, prefix, mac, scopes, allowed_models,
      created_at, expires_at)
    VALUES (request->>'id', old.organization_id, old.member_id, old.name, request->>'prefix',
      decode(request->>'mac', 'hex'), old.scopes, old.allowed_models,
      date_trunc('milliseconds', at), wanted_expiry)
    RETURNING * INTO k;
  UPDATE api_key SET replaced_by = k.id, expires_at = least(expires_at,
      at + (request->>'overlapMs')::bigint * interval '1 millisecond')
    WHERE id = old.id RETURNING * INTO old;
  RETURN jsonb_build_object('verdict', 'created', 'organizationId', k.organization_id,
    'meta', api_key_meta(k), 'oldExpiresAt', unix_ms(old.expires_at));
END $$;

-- Revokes a key at once. The user's lock is taken first: a create that this very key began is either
-- done before, and listed, or finds its maker gone. A null member revokes any key (operators).
CREATE FUNCTION revoke_api_key(key_id text, of_member text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE owner text; organization text;
BEGIN
  SELECT member_id INTO owner FROM api_key
    WHERE id = key_id AND (of_member IS NULL OR member_id = of_member);
  IF NOT FOUND THEN RETURN NULL; END IF;
  PERFORM FROM member WHERE id = owner FOR NO KEY UPDATE;
  UPDATE api_key SET revoked_at = clock_timestamp() WHERE id = key_id AND revoked_at IS NULL
      AND (replaced_by IS NULL OR expires_at > clock_timestamp())
    RETURNING organization_id INTO organization;
  RETURN organization;
END $$;

-- What operators did. Written in the transaction of the deed itself wherever that is ours.
CREATE TABLE admin_action (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  action text NOT NULL,
  actor text NOT NULL,
  reason text NOT NULL,
  organization_id text REFERENCES organization,
  subject text NOT NULL,
  details jsonb NOT NULL,
  request_id text NOT NULL,
  -- A repeated grant is one deed.
  deed_key text UNIQUE,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX admin_action_of_organization ON admin_action (organization_id, id);

CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END $$;
CREATE TRIGGER admin_action_append_only BEFORE UPDATE OR DELETE ON admin_action
  FOR EACH ROW EXECUTE FUNCTION refuse_change();
