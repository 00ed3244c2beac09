-- Format that an upload had before it was converted, e.g. HEIC; null if it was not converted.
ALTER TABLE upload ADD COLUMN converted_from text;
