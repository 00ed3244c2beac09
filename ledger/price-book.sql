-- Changes of the price book, which processes read in parts (price-book.ts). Numbers are given under a lock, so
-- a reader that has seen a number misses no smaller one.

-- Returns the earliest time at which a change may count, because each process may only then know it.
CREATE FUNCTION earliest_price_change(delay_ms bigint) RETURNS timestamptz LANGUAGE sql VOLATILE RETURN
  date_trunc('milliseconds', clock_timestamp() + (delay_ms + 1) * interval '1 millisecond');

-- Adds a row: {id, organizationId, what, markup, unit, unitMicro, inputMicro, outputMicro, fromMs, untilMs, delayMs}.
-- Returns null if it begins before a change may count.
CREATE FUNCTION add_price_row(input jsonb) RETURNS price_row LANGUAGE plpgsql AS $$
DECLARE p price_row; earliest timestamptz;
BEGIN
  LOCK TABLE price_row IN SHARE ROW EXCLUSIVE MODE;
  earliest := earliest_price_change((input->>'delayMs')::bigint);
  p.id := input->>'id'; p.organization_id := input->>'organizationId'; p.what := input->>'what';
  p.markup := (input->>'markup')::integer; p.unit := input->>'unit'; p.unit_micro := (input->>'unitMicro')::bigint;
  p.input_micro := (input->>'inputMicro')::bigint; p.output_micro := (input->>'outputMicro')::bigint;
  p.valid_from := coalesce(timestamp_of_ms((input->>'fromMs')::bigint), earliest);
  p.valid_until := timestamp_of_ms((input->>'untilMs')::bigint);
  p.created_at := clock_timestamp();
  p.version := (SELECT coalesce(max(version), 0) + 1 FROM price_row);
  IF p.valid_from < earliest OR p.valid_until <= p.valid_from THEN RETURN NULL; END IF;
  INSERT INTO price_row SELECT p.*;
  RETURN p;
END $$;

-- Ends a row at a time, or as early as possible. Returns null if the row has already ended, or the time is
-- earlier than a change may count or later than the row's end.
CREATE FUNCTION end_price_row(row_id text, until_ms bigint, delay_ms bigint) RETURNS price_row LANGUAGE plpgsql AS $$
DECLARE p price_row; earliest timestamptz; ends timestamptz;
BEGIN
  LOCK TABLE price_row IN SHARE ROW EXCLUSIVE MODE;
  earliest := earliest_price_change(delay_ms);
  ends := coalesce(timestamp_of_ms(until_ms), earliest);
  UPDATE price_row SET valid_until = greatest(ends, valid_from), version = (SELECT max(version) + 1 FROM price_row)
    WHERE id = row_id AND ends >= earliest AND coalesce(valid_until > greatest(ends, valid_from), true)
    RETURNING * INTO p;
  RETURN p;
END $$;

-- Keeps the history of prices: a row is only ended.
CREATE OR REPLACE FUNCTION keep_price_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' OR OLD.valid_until <= clock_timestamp()
    OR to_jsonb(NEW) - '{valid_until,version}'::text[] <> to_jsonb(OLD) - '{valid_until,version}'::text[] THEN
    RAISE EXCEPTION 'a row of the price book may only be ended';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER price_row_append_only BEFORE UPDATE OR DELETE ON price_row
  FOR EACH ROW EXECUTE FUNCTION keep_price_row();

-- Returns the price by a row of the price book, as domain/book-price.ts calculates it: of a unit, or, if the unit
-- is null, of tokens. `cost` is the price in the catalog. Null if the row has no price of the unit.
CREATE FUNCTION book_price(p price_row, cost bigint, priced_unit text, input_tokens bigint, output_tokens bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE RETURN CASE
  WHEN p.markup IS NOT NULL THEN ceil(cost::numeric * (10000 + p.markup) / 10000)
  WHEN p.unit = priced_unit THEN p.unit_micro
  WHEN priced_unit IS NULL THEN ceil((input_tokens::numeric * p.input_micro + output_tokens::numeric * p.output_micro) / 1000000)
END;
