-- Convert between timestamps and the Unix milliseconds of JSON responses.

CREATE FUNCTION unix_ms(at timestamptz) RETURNS bigint LANGUAGE sql STABLE RETURN
  round(extract(epoch FROM at) * 1000)::bigint;

CREATE FUNCTION timestamp_of_ms(ms bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE RETURN
  to_timestamp(ms / 1000.0);
