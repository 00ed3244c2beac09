import { exec } from 'node:child_process';
import { promisify } from 'node:util';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import sharp from 'sharp';
import { describe, expect, it, onTestFinished } from 'vitest';
import { newFolder } from '../../harness/folders.ts';
import { useGateway, type TestCaller } from '../../harness/gateway.ts';
import { until } from '../../harness/until.ts';
import { studio } from './studio.ts';

const gateway = useGateway({ media: 'full' });
const directory = newFolder();

const as =
  ({ key }: Pick<TestCaller, 'key'>) =>
  (line: string) =>
    studio(line, { STUDIO_API_URL: gateway.url, STUDIO_API_KEY: key });
const run = (line: string) => as(gateway.caller)(line);
const admin = (line: string) =>
  studio(`admin ${line}`, {
    STUDIO_API_URL: gateway.url,
    STUDIO_ADMIN_KEY: gateway.config.ADMIN_API_KEY,
  });
/** Runs a command that changes something, with its reason. */
const change = (line: string) => admin(`${line} --actor olga --reason "ticket 7"`);
const jobIn = (text: string): string => /job_[0-9a-f]{32}/.exec(text)?.[0] ?? '';

/** The message after a response 401. */
const unauthorized = 'studio: Unauthorized: the key is not valid, was revoked or has expired\n';

describe('studio recipes', () => {
  it('saves, lists, uses and deletes a recipe', async () => {
    const file = join(directory, 'body.json');
    await writeFile(file, JSON.stringify({ prompt: 'a red mug', aspectRatio: '16:9' }));
    const saved = await run(`recipes save mug ${file} --use image/generate`);
    expect(saved.stdout).toMatch(/^name +mug$[^]*"prompt": "a red mug"/m);
    expect((await run('recipes list')).stdout).toMatch(/^mug +[0-9a-f]{16} +image\/generate/m);
    const used = await run('image --recipe mug --json');
    const { data } = JSON.parse(used.stdout) as { data: object };
    expect(data).toMatchObject({ prompt: 'a red mug', recipe: expect.stringMatching(/^mug@/) });
    expect((await run('image')).stderr).toContain('missing prompt');
    expect((await run('recipes delete mug')).stdout).toBe('deleted mug\n');
    expect((await run('recipes show mug')).stderr).toContain('No such recipe');
  });
});

describe('studio image', () => {
  it('generates an image, shows the progress, and saves the file', async () => {
    const path = join(directory, 'lighthouse.png');
    const drawn = await run(`image a lighthouse at dawn --aspect-ratio 16:9 -o ${path}`);
    expect(drawn.status).toBe(0);
    expect(drawn.stdout).toMatch(
      /^job +job_[0-9a-f]{32}$[^]*^status +completed$[^]*^credits +3\.9$/m,
    );
    expect(drawn.stdout).toContain(path);
    expect(drawn.stderr).toMatch(/job_[0-9a-f]{32} {2}completed/);
    expect(await sharp(path).metadata()).toMatchObject({ format: 'png', width: 1360, height: 768 });
  });

  it('saves several images to a directory, or under numbered names', async () => {
    const folder = join(directory, 'several/');
    const numbered = join(directory, 'pic.png');
    const drawn = await run(`image a lighthouse -n 2 -o ${folder} --json`);
    expect(drawn.status).toBe(0);
    const job = JSON.parse(drawn.stdout) as { data: { result: { images: object[] } } };
    expect(job.data.result.images).toHaveLength(2);
    expect(await readdir(folder)).toHaveLength(2);
    expect((await run(`image a lighthouse -n 2 -o ${numbered}`)).status).toBe(0);
    for (const name of ['pic-1.png', 'pic-2.png']) {
      expect(await sharp(join(directory, name)).metadata()).toMatchObject({ format: 'png' });
    }
  });

  it('passes any field, and prints why a field is wrong', async () => {
    const rejected = await run('image a lighthouse --set numImages=99');
    expect(rejected).toMatchObject({ status: 1, stdout: '' });
    expect(rejected.stderr).toMatch(/^studio: INVALID_REQUEST: numImages: .* \(request req_/);
    const json = await run('image a lighthouse --set numImages=99 --json');
    expect(json.status).toBe(1);
    expect(JSON.parse(json.stdout)).toMatchObject({ error: 'INVALID_REQUEST' });
    expect((await run('image a lighthouse --model seedream --set width=1024')).status).toBe(0);
  });

  it('exits with 1 if the job fails', async () => {
    const failed = await run('image "a wreck [[fail:422]]"');
    expect(failed.status).toBe(1);
    expect(failed.stdout).toMatch(/^error +PROVIDER_REJECTED_INPUT: /m);
    const poor = await gateway.newCaller({ credits: 1 });
    const unpaid = await as(poor)('image a lighthouse');
    expect(unpaid).toMatchObject({ status: 1, stdout: '' });
    expect(unpaid.stderr).toContain('INSUFFICIENT_CREDITS');
  });
});

describe('studio jobs', () => {
  it('lists, shows, watches and cancels', async () => {
    const mine = as(await gateway.newCaller({ credits: 100 }));
    // Longer than a busy machine needs to start the two commands that read the running job.
    const started = await mine('image "a boat [[slow:20s]]" --async');
    const jobId = jobIn(started.stdout);
    expect(started.stdout).toContain(`studio jobs watch ${jobId}`);
    const [shown, watched] = await Promise.all([
      mine(`jobs get ${jobId}`),
      mine(`jobs watch ${jobId}`),
    ]);
    expect(shown.stdout).toMatch(/^status +(queued|in_progress) \(/m);
    expect(watched.status).toBe(0);
    expect(watched.stderr).toMatch(/generating[^]*completed/);
    expect(watched.stdout).toMatch(/^status +completed$/m);

    const other = jobIn((await mine('image "a raft [[slow:60s]]" --async --json')).stdout);
    expect((await mine(`jobs cancel ${other}`)).status).toBe(0);
    expect((await mine(`jobs watch ${other}`)).status).toBe(1);
    const listed = await mine('jobs list');
    const [head, first, last] = listed.stdout.split('\n');
    expect(head).toMatch(/^JOB +TYPE +MODEL +STATUS +CREDITS +BILLING +CREATED +ERROR$/);
    expect(first).toMatch(new RegExp(`^${other} .* canceled +0 +released`));
    expect(last).toMatch(new RegExp(`^${jobId} .* completed +3.9 +charged`));
    const paged = await mine('jobs list --limit 1 --json');
    expect(JSON.parse(paged.stdout)).toMatchObject({ data: [{ jobId: other }], hasMore: true });
    expect((await mine('jobs get job_1')).stderr).toContain('JOB_NOT_FOUND');
  });
});

describe('studio in a pipe', () => {
  it('ends silently when its reader closes the pipe, and writes a file to it with --out -', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const program = `"${process.execPath}" clients/cli/main.ts`;
    const runShell = (line: string) =>
      promisify(exec)(line, {
        env: { STUDIO_API_URL: gateway.url, STUDIO_API_KEY: caller.key, DATA_DIR: '/nonexistent' },
        encoding: 'latin1',
      });
    const head = await runShell(`${program} models --json | /usr/bin/head -c 20`);
    expect(head.stdout).toHaveLength(20);
    expect(head.stderr).toBe('');
    const image = await runShell(`${program} image "a lamp" --out -`);
    expect(image.stdout.slice(1, 4)).toBe('PNG');
    expect(image.stderr).toMatch(/^job +job_/m);
    const folder = newFolder();
    await runShell(`${program} image "a lamp at night" --out ${folder}`);
    expect(await readdir(folder)).toEqual(['a-lamp-at-night-1.png']);
    await expect(runShell(`${program} image "a lamp" -n 2 --out -`)).rejects.toThrow(
      '--out - writes one file, but the result has 2',
    );
  });
});

describe('studio bulk', () => {
  const lamps = (...prompts: string[]): string =>
    prompts
      .map((prompt, index) =>
        JSON.stringify({ id: `n${index}`, use: 'image/generate', body: { prompt } }),
      )
      .join('\n');

  it('starts, watches, and prints the results', async () => {
    const mine = as(await gateway.newCaller({ credits: 100 }));
    const file = join(directory, 'items.ndjson');
    const head = JSON.stringify({ options: { maxCredits: 4, metadata: { team: 'ads' } } });
    await writeFile(file, `${head}\n${lamps('a lamp', 'a [[fail:422]] lamp')}\n`);
    const priced = await mine(`bulk start ${file} --estimate`);
    expect(priced.stdout).toMatch(/^credits +7\.8$[^]*^image\/generate +2 +7\.8$/m);
    const done = await mine(`bulk start ${file} --max-credits 30 --watch`);
    expect(done.status).toBe(1);
    expect(done.stderr).toMatch(/^bulk_\w+ {2}\d of 2 {2}/);
    expect(done.stderr).toMatch(/^bulk_\w+ {2}2 of 2 {2}completed {2}1 failed {2}3\.9 credits$/m);
    expect(done.stderr).not.toMatch(/[\r█]/);
    expect(done.stdout).toMatch(/^charged +3\.9$[^]*^maximum +30$/m);

    const bulkId = /bulk_\w+/.exec(done.stdout)?.[0] ?? '';
    const shown = JSON.parse((await mine(`bulk show ${bulkId} --json`)).stdout) as object;
    expect(shown).toMatchObject({ data: { metadata: { team: 'ads' }, counts: { failed: 1 } } });
    const lines = (await mine(`bulk results ${bulkId}`)).stdout.trim().split('\n');
    const results = lines.map((line) => JSON.parse(line) as { id: string });
    expect(results.toSorted((one, other) => one.id.localeCompare(other.id))).toMatchObject([
      { id: 'n0', status: 'completed' },
      { id: 'n1', error: { code: 'PROVIDER_REJECTED_INPUT' } },
    ]);
    const csv = await mine(`bulk results ${bulkId} --csv`);
    expect(csv.stdout).toMatch(/^"index","id","round","jobId",[^]*\r\n0,"n0",1,"job_/);
  });

  it('reads tables and lists as people have them, and changes no text', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const mine = as(caller);
    const file = join(directory, 'table.csv');
    const start = async (content: string, encoding: BufferEncoding, options = '') => {
      await writeFile(file, content, encoding);
      return mine(`bulk start ${file} ${options}`);
    };
    const rows =
      'id;use;prompt;numImages\r\na;image/generate;a 24" café;2\r\nz;image/generate;007;1\r\n';
    const refused = await start(rows, 'latin1');
    expect(refused).toMatchObject({ status: 1, stdout: '' });
    expect(refused.stderr).toMatch(
      /table\.csv: The file is not UTF-8: see line 2 after .*--encoding/,
    );
    const more = `${rows};;;\r\nb;image/generate;b;1;d\r\n`;
    expect((await start(more, 'utf8')).stderr).toMatch(
      /^studio: row 5 \(b\) has a cell in column 5/m,
    );
    const started = await start(more, 'latin1', '--encoding windows-1252 --skip-invalid --watch');
    expect(started.stderr).toMatch(/^1 empty row was skipped: 4\.\nskipped row 5 \(b\) has a cell/);
    expect(started.status).toBe(0);
    const { body } = await gateway.call('/api/v1/studio/jobs', { key: caller.key });
    const jobs = body.data as unknown as { prompt: string; billing: { charged: number } }[];
    expect(jobs.map(({ prompt, billing }) => [prompt, billing.charged]).toSorted()).toEqual([
      ['007', 3.9],
      ['a 24" café', 7.8],
    ]);
    const item = (prompt: string) => JSON.stringify({ use: 'image/generate', body: { prompt } });
    expect((await start(`${item('a')}\n{oops\n`, 'utf8')).stderr).toBe(
      'studio: line 2 is not valid JSON\n',
    );
    const wide = await start(`\uFEFF${item('a lamp')}\n`, 'utf16le', '--estimate');
    expect(wide.stdout).toMatch(/^credits +3\.9$/m);
  });

  it('shows invalid items, stops, resumes and cancels', async () => {
    const mine = as(await gateway.newCaller({ credits: 100 }));
    const file = join(directory, 'others.ndjson');
    await writeFile(file, lamps('a lamp [[slow:900s]]', 'a lamp', ''));
    const rejected = await mine(`bulk start ${file}`);
    expect(rejected).toMatchObject({ status: 1, stdout: '' });
    expect(rejected.stderr).toMatch(/1 of 3 items are invalid.*\n {2}line 3 \(n2\): prompt must/);
    const started = await mine(`bulk start ${file} --skip-invalid --concurrency 1`);
    expect(started.stderr).toMatch(/^skipped line 3 \(n2\): prompt must [^]*--watch$/m);
    const bulkId = /bulk_\w+/.exec(started.stdout)?.[0] ?? '';
    for (const [command, status] of [
      ['pause', /^status +paused$/m],
      ['resume', /^status +in_progress$/m],
      ['cancel', /^status +canceled$/m],
    ] as const)
      expect((await mine(`bulk ${command} ${bulkId}`)).stdout).toMatch(status);
    expect((await mine(`bulk cancel ${bulkId} --all`)).status).toBe(0);
    const ended = await mine(`bulk show ${bulkId} --watch`);
    expect(ended.status).toBe(1);
    expect(ended.stdout).toMatch(/^canceled +2$/m);
    expect((await mine('bulk list')).stdout).toContain(bulkId);
    expect((await mine('bulk start /no/file')).stderr).toMatch(
      /^studio: \/no\/file cannot be read/,
    );
  });
});

describe('studio webhooks', () => {
  it('manages an endpoint', async () => {
    const mine = as(await gateway.newCaller());
    const url = gateway.receiver.at('/terminal');
    const created = await mine(`webhooks create ${url} --event studio.job.failed`);
    expect(created).toMatchObject({ stdout: expect.stringMatching(/secret +whsec_/), stderr: '' });
    const [id = ''] = /whe_[0-9a-f]{32}/.exec(created.stdout) ?? [];
    expect((await mine(`webhooks pause ${id}`)).stdout).toMatch(/paused +true/);
    expect((await mine(`webhooks test ${id}`)).stdout).toMatch(/outcome +delivered/);
    expect((await mine('webhooks list')).stdout).toContain(url);
  });
});

describe('studio approve and reject', () => {
  const steps = [
    { id: 'art', use: 'image/generate', body: { prompt: 'a lamp', numImages: 2 } },
    {
      id: 'big',
      use: 'image/upscale',
      approve: true,
      body: { imageUrl: { $from: 'art', output: 'chosen' } },
    },
  ];
  const untilWaiting = (
    mine: ReturnType<typeof as>,
    command: string,
    pattern: RegExp,
  ): Promise<unknown> => until(async () => pattern.test((await mine(command)).stdout));

  it('decide about the step of a pipeline that waits', async () => {
    const mine = as(await gateway.newCaller({ credits: 100 }));
    const [file, body] = [join(directory, 'steps.json'), join(directory, 'body.json')];
    await writeFile(file, JSON.stringify({ steps }));
    await writeFile(body, JSON.stringify({ scaleFactor: 2 }));
    const jobs: string[] = [];
    for (const _ of steps) jobs.push(jobIn((await mine(`pipeline ${file} --async`)).stdout));
    const [job, other] = jobs;
    await untilWaiting(
      mine,
      'jobs list --phase awaiting_approval',
      new RegExp(`${other}[^]*${job}`),
    );
    const unchosen = await mine(`approve ${job}`);
    expect(unchosen).toMatchObject({ status: 1, stdout: '' });
    expect(unchosen.stderr).toContain('outputs.art');
    const approved = await mine(`approve ${job} big --output art=1 --body ${body}`);
    expect(approved, approved.stderr).toMatchObject({ status: 0 });
    expect(approved.stdout).toMatch(/^job +job_\w+$[^]*^status +in_progress/m);
    const rejected = await mine(`reject ${other} --reason "too dark"`);
    expect(rejected, rejected.stderr).toMatchObject({ status: 0 });
    const late = await mine(`reject ${job} big`);
    expect(late.stderr).toContain('ALREADY_DECIDED');
    expect((await mine(`jobs watch ${job}`)).stdout).toMatch(/^credits +15\.8$/m);
    expect((await mine(`jobs watch ${other}`)).stdout).toMatch(/^credits +7\.8$/m);
    expect((await mine(`reject ${other}`)).stderr).toContain('no step of the job waits');
  });

  it('decide about items of a bulk job', async () => {
    const mine = as(await gateway.newCaller({ credits: 100 }));
    const file = join(directory, 'films.ndjson');
    const item = (id: string) => JSON.stringify({ id, use: 'pipelines', body: { steps } });
    await writeFile(file, ['a', 'b', 'c'].map(item).join('\n'));
    const started = await mine(`bulk start ${file}`);
    const bulkId = /bulk_\w+/.exec(started.stdout)?.[0] ?? '';
    await untilWaiting(mine, `bulk show ${bulkId}`, /^awaiting +3$/m);
    const approved = await mine(`approve ${bulkId} --items a,b --output art=0`);
    expect(approved, approved.stderr).toMatchObject({ status: 0 });
    expect(approved.stdout).toMatch(/^a +job_\w+ +counts$\n^b +job_\w+ +counts$/m);
    const refused = await mine(`reject ${bulkId} --items a`);
    expect(refused.status).toBe(1);
    expect(refused.stdout).toMatch(/^a +job_\w+ +Another decision/m);
    const rest = await mine(`reject ${bulkId} big --items all --reason dark`);
    expect(rest.stdout).toMatch(/^c +job_\w+ +counts$/m);
    const ended = await mine(`bulk show ${bulkId} --watch`);
    expect(ended.stdout).toMatch(/^charged +39\.4$/m);
  });
});

describe('studio admin prices and margin', () => {
  it('add, list and end a row, and show the margin', async () => {
    const { organizationId } = await gateway.newCaller();
    const added = await change(`prices add chat --org ${organizationId} --markup 20`);
    const row = /price_[0-9a-f]{32}/.exec(added.stdout)?.[0] ?? '';
    expect(added.stdout).toMatch(/^price +\+20 %$/m);
    const fixed = await change(
      `prices add seedream --org ${organizationId} --unit image --credits 5`,
    );
    expect(fixed.stdout).toMatch(/^price +5 per image$/m);
    const listed = await admin(`prices list --org ${organizationId}`);
    expect(listed.stdout).toMatch(new RegExp(`^${row} +${organizationId} +chat +\\+20 % `, 'm'));
    expect((await change(`prices end ${row}`)).stdout).toMatch(/^until +20/m);
    expect((await change('prices add nothing --markup 1')).stderr).toContain('what: must be');
    const margin = await admin('margin --after 2026-01-01 --before 2026-01-02');
    expect(margin).toMatchObject({ status: 0, stdout: '(none)\n' });
  });
});

describe('studio keys and usage', () => {
  it('create, list, rotate and revoke keys', async () => {
    const mine = as(await gateway.newCaller({ credits: 100 }));
    const scopes = '--scope keys:read --scope chat';
    const made = await mine(`keys create "my laptop" --expires-in 30d ${scopes}`);
    const key = /gk_live_\w+/.exec(made.stdout)?.[0] ?? '';
    const keyId = /key_[0-9a-f]{32}/.exec(made.stdout)?.[0] ?? '';
    expect(made.stdout).toMatch(/it will not be shown again/);
    const listed = await mine('keys list');
    expect(listed.stdout).toMatch(new RegExp(`^${keyId} +${key.slice(0, 12)}… +my laptop `, 'm'));
    expect(listed.stdout).not.toContain(key);
    const listAs = () => studio(`keys list --json --api-key ${key} --api-url ${gateway.url}`, {});
    expect((JSON.parse((await listAs()).stdout) as { keys: object[] }).keys).toHaveLength(2);

    const rotated = await mine(`keys rotate ${keyId} --overlap 0s`);
    expect(rotated.status).toBe(0);
    expect((await listAs()).stderr).toContain(unauthorized);
    const newId = /key_[0-9a-f]{32}/.exec(rotated.stdout)?.[0] ?? '';
    expect((await mine(`keys revoke ${newId}`)).stdout).toBe(`revoked ${newId}\n`);
    expect(await mine(`keys revoke ${newId}`)).toMatchObject({ status: 1 });
    expect((await mine('keys create n --expires-in soon')).status).toBe(2);
  });

  it('show the used credits', async () => {
    const caller = await gateway.newCaller({ credits: 100, windowCredits: 50 });
    const mine = as(caller);
    await mine('image a lighthouse');
    const used = await mine('usage');
    expect(used.stdout).toMatch(/^available +96\.1$/m);
    expect(used.stdout).toMatch(/^window +3\.9 of 50 used$/m);
    expect(used.stdout).toMatch(/imageGenerate +nano-banana +charged +3\.9 /);
    const events = await mine('usage events --since 1');
    expect(
      events.stdout
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as object),
    ).toMatchObject([{ kind: 'charge', credits: 3.9, quantity: 1, unit: 'image' }]);
    const table = await mine('usage export --focus --from 2026-01-01T00:00:00Z');
    const [header = '', ...rows] = table.stdout.trim().split('\n');
    expect(header.split(',').slice(0, 3)).toEqual([
      'BilledCost',
      'BillingAccountId',
      'BillingCurrency',
    ]);
    expect(rows).toEqual([expect.stringMatching(/^0\.039,org_[0-9a-f]+,USD,.*,Usage,/)]);
    const json = await mine(`usage --json --limit 5 --key ${caller.keyId}`);
    expect(JSON.parse(json.stdout)).toMatchObject({ credits: 96.1, usage: [{ credits: 3.9 }] });
    expect((await mine('usage --limit 1000')).stderr).toContain('limit: ');
    await mine('chat hello --model none/such');
    await until(async () =>
      (await mine('requests list --status rejected')).stdout.includes('rej_'),
    );
    const rejected = await mine('requests list');
    expect(rejected.stdout).toMatch(/ chat +none\/such .* rejected +UNKNOWN_MODEL /);
    const shown = await mine(`requests get ${/rej_\w+/.exec(rejected.stdout)?.[0]}`);
    expect(shown.stdout).toMatch(/^error message +The model does not exist\.$/m);
  });

  it('find and sum up tagged usage', async () => {
    const mine = as(await gateway.newCaller({ credits: 100 }));
    await mine('image a lighthouse');
    const tree = jobIn((await mine('image a tree --metadata team=x --metadata env=live')).stdout);
    const tagged = await mine('jobs list --metadata team=x --model nano-banana');
    expect(tagged.stdout.match(/job_\w+/g)).toEqual([tree]);
    expect((await mine(`jobs timeline ${tree}`)).stdout).toMatch(/^submit +1 +done +1 .*  fal /m);
    const listed = await mine('files list --kind artifact');
    expect(listed.stdout).toContain(tree);
    expect((await mine(`files delete ${tree}`)).stdout).toBe(`deleted ${tree}\n`);
    expect((await mine('files list')).stdout).not.toContain(tree);
    expect(await mine(`files delete file_${'0'.repeat(32)}`)).toMatchObject({ status: 1 });
    expect((await mine('jobs list --metadata team=y')).stdout).toBe('(none)\n');
    expect((await mine('jobs list --metadata team')).status).toBe(2);
    const sums = await mine('usage --by model,metadata.team');
    expect(sums.stdout).toMatch(/MODEL +METADATA\.TEAM +REQUESTS +CREDITS/);
    expect(sums.stdout).toMatch(/^nano-banana +x +1 +3\.9 +0 +0$/m);
  });
});

describe('studio admin', () => {
  it('manages organizations, users, keys and credits', async () => {
    const create = async (line: string) =>
      (JSON.parse((await change(`${line} --json`)).stdout) as { data: Record<string, string> })
        .data;
    const { organizationId } = await create('org create Acme --window 50');
    const { userId } = await create(`user create ${organizationId} Ann --role member`);
    const { key = '', keyId } = await create(`key create ${userId} first`);
    const move = async (line: string) => change(line.replace(' ', ` ${organizationId} `));
    const limits = '--rate-limit 900 --jobs-max none';
    const limited = await change(`org limits ${organizationId} ${limits}`);
    expect(limited.stdout).toMatch(/^requests\/min +900$/m);
    expect((await change(`key limit ${keyId} --jobs-max 7`)).stdout).toMatch(/^jobs max +7$/m);
    const grant = 'grant 20 --id invoice-1';
    expect((await move(grant)).stdout).toMatch(/^granted +20\navailable +20$/m);
    expect((await move(grant)).stdout).toMatch(/^granted +already applied\navailable +20$/m);
    const taken = await move('take-back 4 --id back-0');
    expect(taken.stdout).toMatch(/^taken back +4\navailable +16$/m);
    const rejected = await move('take-back 17 --id back-1');
    expect(rejected.status).toBe(1);
    expect(rejected.stderr).toContain('INSUFFICIENT_CREDITS');
    const ann = as({ key });
    expect((await ann('image a lighthouse')).status).toBe(0);

    const [orgs, users, keys, ledger, jobs, open, window, audit] = await Promise.all([
      admin('org list'),
      admin(`user list ${organizationId}`),
      admin(`key list ${userId}`),
      admin(`ledger ${organizationId}`),
      admin(`jobs --org ${organizationId}`),
      admin(`reservations --org ${organizationId}`),
      change(`window ${organizationId} 40.5`),
      admin('audit'),
    ]);
    const row = new RegExp(`^${organizationId} +Acme +active +12.1 +0 +3.9 +(50|40.5)$`, 'm');
    expect(orgs.stdout).toMatch(row);
    expect(users.stdout).toMatch(/Ann +member +1$/m);
    expect(keys.stdout).toContain(keyId);
    expect(ledger.stdout.split('\n')).toEqual([
      expect.stringMatching(/^# +AT +KIND +POSTED +RESERVED /),
      expect.stringMatching(/^4 .* charge +-3.9 +-3.9 +12.1 +0 +job_/),
      expect.stringMatching(/^3 .* reserve +0 +3.9 +16 +3.9 +job_/),
      expect.stringMatching(/^2 .* grant +-4 +0 +16 +0 +olga +ticket 7$/),
      expect.stringMatching(/^1 .* grant +20 +0 +20 +0 +olga +ticket 7$/),
      '',
    ]);
    expect(jobs.stdout).toContain('completed');
    expect(open.stdout).toBe('(none)\n');
    expect(window.stdout).toContain('3.9 of 40.5 used');
    expect(audit).toMatchObject({ status: 0, stdout: 'clean\n' });
    const jobId = jobIn(jobs.stdout);
    const refund = `refund ${jobId} --id ticket-7 --credits 1`;
    const refunded = /^refunded +1\ntotal refunded +1\navailable +13.1$/m;
    expect((await change(refund)).stdout).toMatch(refunded);
    expect((await change(refund)).stdout).toMatch(/^refunded +1 \(already applied\)$/m);
    const sentence = '; 1 credits refunded by olga (ticket 7)';
    expect((await admin(`why ${jobId}`)).stdout).toContain(sentence);
    await change(`org suspend ${organizationId}`);
    expect((await ann('usage')).stderr).toContain('ORGANIZATION_SUSPENDED');
    await change(`org activate ${organizationId}`);
    await change(`key revoke ${keyId}`);
    expect((await ann('usage')).stderr).toBe(unauthorized);
    const actions = await admin(`actions --org ${organizationId}`);
    expect(actions.stdout.match(/olga +ticket 7$/gm)).toHaveLength(12);
  });

  it('manages jobs and providers', async () => {
    const paused = await change('pause fal');
    // The tests that follow need the provider, also after a failure of this one.
    onTestFinished(async () => void (await change('resume fal')));
    expect(paused.stdout).toMatch(/^paused +.* by olga: ticket 7$/m);
    const jobId = jobIn((await run('image a waiting lighthouse --async')).stdout);
    await expect
      .poll(async () => (await admin('stuck --older-than-seconds 0')).stdout, { interval: 500 })
      .toMatch(/job_.* call 1 is waiting: fal was paused .* by olga: ticket 7$/m);
    const [providers, unknown, notifications, verified, rejected] = await Promise.all([
      admin('providers'),
      admin('unknown'),
      admin('notifications --state received'),
      change(`reverify ${jobId}`),
      change(`resettle ${jobId}`),
    ]);
    expect(providers.stdout).toMatch(
      /^fal +.* by olga: ticket 7 +1 +0 +\d+ +0 +[\d.-]+ +[\d.-]+$/m,
    );
    // Jobs of other tests may have unknown outcomes.
    expect(unknown.stdout).toMatch(/^(\(none\)|JOB )/);
    for (const { stdout } of [unknown, notifications]) expect(stdout).not.toContain(jobId);
    expect(verified.stdout).toMatch(/^ *1 +fal +not_sent +fal did not accept the call$/m);
    expect(rejected.stderr).toContain('JOB_RUNNING');
    expect((await change('resume fal')).stdout).toMatch(/^provider +fal$/m);
    await gateway.untilDone(jobId);
  });

  it('explains a job of any organization, in detail and in one sentence', async () => {
    const other = await gateway.newCaller({ credits: 10 });
    const jobId = jobIn((await as(other)('image a lighthouse')).stdout);
    const [story, sentence, data, missing] = await Promise.all([
      admin(`job ${jobId}`),
      admin(`why ${jobId}`),
      admin(`why ${jobId} --json`),
      admin(`job job_${'0'.repeat(32)}`),
    ]);
    const charged = /^Charged 3\.9 credits to Test: fal delivered 1 file of .*\.\n$/;
    expect(sentence.stdout).toMatch(charged);
    expect(story.stdout.startsWith(sentence.stdout)).toBe(true);
    for (const line of [
      new RegExp(`^organization +Test \\(${other.organizationId}, active\\)$`, 'm'),
      /^credits +3\.9 reserved, 3\.9 charged, 0 refunded: charged$/m,
      /^request body +\{"model":"nano-banana","prompt":"a lighthouse"\}$/m,
      /^submit +1 +done +1 .* 0\.\d+ +fal /m,
      /^Provider calls\n/m,
      /^1?\d .* charge +-3\.9 +-3\.9$/m,
      /^Next\n- Nothing to do: the job is settled\.$/m,
    ]) {
      expect(story.stdout).toMatch(line);
    }
    const rejectedId = jobIn((await as(other)('image "[[policy]] a lighthouse"')).stdout);
    const { stdout } = await admin(`job ${rejectedId}`);
    expect(stdout).toMatch(/^ *1 +fal .* content_policy_violation\b/m);
    expect(JSON.parse(data.stdout)).toMatchObject({ data: { jobId, why: expect.any(String) } });
    expect(missing).toMatchObject({ status: 1, stderr: expect.stringContaining('JOB_NOT_FOUND') });
  });

  it('counts the jobs of a bulk action, and acts on them with --run', async () => {
    const caller = await gateway.newCaller();
    const jobId = await gateway.startImage({ prompt: 'a lighthouse' }, caller.key);
    await gateway.untilDone(jobId, caller.key);
    const start = `bulk-action start refund --org ${caller.organizationId}`;
    expect((await change(start)).stdout).toMatch(/^jobs +1$[^]*--run/m);
    const id = /act_\w+/.exec((await change(`${start} --run`)).stdout)?.[0];
    await expect
      .poll(async () => (await admin(`bulk-action show ${id}`)).stdout)
      .toMatch(/^status +completed$[^]*^done +1$/m);
    expect((await admin('bulk-action list')).stdout).toContain(id);
    expect((await change(`bulk-action cancel ${id}`)).status).toBe(0);
  });

  it('creates a key for each operator, and records the operator’s name', async () => {
    const { stdout } = await change('operator create paul');
    const key = /^key +(gk_oper_\w+)$/m.exec(stdout)?.[1] ?? '';
    const operatorId = /^operator +(opr_\w+)$/m.exec(stdout)?.[1] ?? '';
    const asPaul = (line: string) => admin(`${line} --admin-key ${key}`);
    expect((await asPaul('operator whoami')).stdout).toBe('paul\n');
    expect((await admin('operator list')).stdout).toMatch(/^opr_\w+ +paul +gk_oper_/m);
    expect((await change(`operator revoke ${operatorId}`)).status).toBe(0);
    expect((await asPaul('operator whoami')).stderr).toBe(unauthorized);
  });
});

describe('the address of the gateway', () => {
  it('defaults to the local stack, whose keys are sent to no other address', async () => {
    const { url: apiUrl, caller } = gateway;
    const stack = { apiUrl, apiKey: caller.key, adminKey: gateway.config.ADMIN_API_KEY };
    await writeFile(join(directory, 'stack.json'), JSON.stringify(stack));
    const env = { DATA_DIR: directory };
    const [own, operators, elsewhere, dead] = await Promise.all([
      studio('usage', env),
      studio('admin audit', env),
      studio('usage --api-url http://127.0.0.1:1', env),
      studio('usage --api-url http://127.0.0.1:1 --api-key k', env),
    ]);
    expect(own.status).toBe(0);
    expect(operators.status).toBe(0);
    expect(elsewhere.stderr).toMatch(/^studio: No API key/);
    const unreachable = /^studio: CONNECTION_FAILED: http:\/\/127.0.0.1:1 cannot be reached/;
    expect(dead.stderr).toMatch(unreachable);
    expect(dead.status).toBe(1);
  });
});
