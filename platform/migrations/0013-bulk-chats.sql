-- Chats as items of bulk jobs (bulk/bulk-chats.ts). `job_id` of such an item is the id of its chat.
ALTER TABLE bulk_item
  -- Minimum of free micro-credits with which the chat of the item starts; null for an item with a job.
  ADD COLUMN chat_min micro,
  -- Answer of a completed chat, in the format of its endpoint, as a JSON text, because numbers in tools keep
  -- their digits. Null once it was deleted because of its age.
  ADD COLUMN answer text;
CREATE INDEX bulk_item_waiting_chat ON bulk_item (bulk_id, postponed, index)
  WHERE state = 'waiting' AND chat_min IS NOT NULL;
