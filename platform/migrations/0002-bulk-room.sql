-- Bytes of bulk jobs that count toward the storage quota of their organization (bulk/bulk-room.sql).

ALTER TABLE bulk ADD COLUMN stored_bytes bigint NOT NULL DEFAULT 0;
ALTER TABLE bulk_item ADD COLUMN stored_bytes integer NOT NULL DEFAULT 0;
-- Bulk jobs of an organization in the order of their list, with and without a status.
CREATE INDEX bulk_list ON bulk (organization_id, id DESC);
CREATE INDEX bulk_list_by_status ON bulk (organization_id, status, id DESC);
