-- Price book (ledger/price-book.sql): rows that replace or mark up the catalog's prices. A row is ended, and
-- never changed.
CREATE TABLE price_row (
  id text PRIMARY KEY,
  -- Number of the last change of all rows, by which processes find what changed.
  version bigint NOT NULL UNIQUE,
  -- Organization whose prices the row sets; null for all organizations.
  organization_id text REFERENCES organization,
  -- Model, Studio endpoint such as `image/generate`, `chat`, or `*`.
  what text NOT NULL,
  -- Hundredths of a percent that are added to the catalog's price.
  markup integer CHECK (markup BETWEEN -10000 AND 1000000),
  -- Fixed price of a unit of Studio work.
  unit text CHECK (unit IN ('image', 'second', 'character', 'request')),
  unit_micro micro,
  -- Fixed prices of a million tokens.
  input_micro micro,
  output_micro micro,
  valid_from timestamptz NOT NULL,
  valid_until timestamptz,
  created_at timestamptz NOT NULL,
  CHECK (valid_until >= valid_from),
  CHECK (num_nonnulls(markup, unit, input_micro) = 1 AND (unit IS NULL) = (unit_micro IS NULL)
    AND (input_micro IS NULL) = (output_micro IS NULL))
);
CREATE INDEX price_row_of_organization ON price_row (organization_id, id);

-- Catalog's price of what was charged, or had been used at the last checkpoint of a chat, which the provider is
-- assumed to cost; null if a process of an earlier version settled it.
ALTER TABLE reservation ADD COLUMN cost micro;
-- Rows of the price book by which the reservation, and once it is charged the charge, was priced. Null: the
-- catalog.
ALTER TABLE reservation ADD COLUMN price_rows text[];
ALTER TABLE ledger_entry ADD COLUMN price_rows text[];
ALTER TABLE booked_day ADD COLUMN cost bigint NOT NULL DEFAULT 0;
