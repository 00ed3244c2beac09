/**
 * A database trigger for tests: no transaction may end with a job that is charged and not completed,
 * completed and not charged, or ended and still reserved. Only a chat job can be charged without being
 * completed. The check runs at each commit,
 * so it also finds a pair of transactions that are correct only together: the first of them fails.
 */

type Query = (text: string) => Promise<unknown>;

/**
 * Installs the trigger; `query` runs a statement in the database. Returns a function that removes
 * the trigger.
 */
export async function guardSettlements(query: Query): Promise<() => Promise<void>> {
  await query(`CREATE FUNCTION guard_settlement() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
      wrong text;
    BEGIN
      SELECT format('%s is %s but %s', j.id, r.state, j.status) INTO wrong
        FROM job j JOIN reservation r ON r.id = j.id
        WHERE j.id = NEW.id AND ((r.state = 'reserved') <> (j.status = 'open')
          OR j.status = 'completed' AND r.state <> 'charged'
          OR r.state = 'charged' AND j.status <> 'completed' AND j.type <> 'chatAnswer');
      IF FOUND THEN RAISE EXCEPTION 'not settled at once: %', wrong; END IF;
      RETURN NULL;
    END $$`);
  for (const table of ['job', 'reservation']) {
    await query(`CREATE CONSTRAINT TRIGGER guard_settlement AFTER INSERT OR UPDATE ON ${table}
      DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION guard_settlement()`);
  }
  return async () => {
    await query('DROP FUNCTION guard_settlement CASCADE');
  };
}
