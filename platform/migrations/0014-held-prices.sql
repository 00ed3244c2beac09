-- What keeps prices true: copies of foreign inputs that a price was measured on, and chats whose input
-- only the provider can count.

-- Copies of foreign inputs, written before the object is stored, so that none is ever forgotten. They go
-- when their request is refused, or when their job is settled.
CREATE TABLE input_copy (
  storage_key text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  -- There is no such job when the request was refused.
  job_id text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX input_copy_by_age ON input_copy (created_at);

-- Raises the open reservation of a chat to `wanted`, or as far as the balance goes: only the provider can
-- count some inputs, and what it counted is charged. Answers what is reserved then; a repeat changes nothing.
CREATE FUNCTION chat_raise(organization text, chat text, wanted bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE a account; r reservation; more bigint;
BEGIN
  SELECT * INTO a FROM account WHERE organization_id = organization FOR UPDATE;
  SELECT * INTO r FROM reservation WHERE id = chat AND organization_id = organization;
  IF r.state IS DISTINCT FROM 'reserved' THEN RETURN 0; END IF;
  more := least(wanted - r.amount, a.posted - a.reserved);
  IF more <= 0 THEN RETURN r.amount; END IF;
  UPDATE reservation SET amount = r.amount + more WHERE id = chat;
  PERFORM ledger_post(a, 'raise:' || chat || ':' || (a.sequence + 1), 'reserve', chat, 0, more,
    NULL, NULL, clock_timestamp());
  RETURN r.amount + more;
END $$;

-- Chats whose callers left before the provider said what they cost, of the last minutes.
CREATE TABLE abandoned_chat (
  id text PRIMARY KEY,
  key_id text NOT NULL REFERENCES api_key,
  -- Micro-credits that the provider has billed for the input, as far as we can tell, and nobody has paid.
  lost bigint NOT NULL CHECK (lost >= 0),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX abandoned_chat_of_key ON abandoned_chat (key_id, created_at);

-- Notes such a chat. Answers how many of its key there were lately, what they lost, and what was charged for
-- the key's other chats meanwhile (the last 2,000 of each kind). What is older is forgotten.
CREATE FUNCTION chat_abandon(chat text, key text, lost_micro bigint, lately interval) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE since timestamptz := clock_timestamp() - lately; paid bigint; ended bigint; lost bigint;
BEGIN
  DELETE FROM abandoned_chat WHERE key_id = key AND created_at < since;
  INSERT INTO abandoned_chat (id, key_id, lost) VALUES (chat, key, lost_micro) ON CONFLICT DO NOTHING;
  SELECT count(*), sum(a.lost) INTO ended, lost FROM abandoned_chat a WHERE a.key_id = key;
  SELECT coalesce(sum(charged), 0) INTO paid FROM (
    (SELECT r.charged FROM chat_request c JOIN reservation r USING (id)
      WHERE c.key_id = key AND c.created_at > since ORDER BY c.created_at DESC LIMIT 2000)
    UNION ALL
    (SELECT CASE l.state WHEN 'charged' THEN l.amount END FROM leased_chat l
      WHERE l.key_id = key AND l.created_at > since ORDER BY l.created_at DESC LIMIT 2000)) AS chats;
  RETURN jsonb_build_object('abandoned', ended, 'lostMicro', lost, 'paidMicro', paid);
END $$;
