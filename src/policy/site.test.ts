// The check of site rules reports each problem with its line and a suggestion.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findNearest } from '../platform/did-you-mean.ts';
import type { FileProblem } from '../wire/primitives.ts';
import { loadCedar, readBaseText } from './cedar.ts';
import { expandManifestRules } from './manifest-rules.ts';
import { splitRules } from './rule-text.ts';
import { checkSiteFile, isSiteFileName } from './site.ts';
import { rights } from './testing/rights.ts';

async function check(text: string) {
  const cedar = await loadCedar();
  return checkSiteFile(
    cedar,
    { file: '10.cedar', text },
    { agents: ['coder'], nearest: findNearest },
  );
}
const format = (problems: readonly FileProblem[]) =>
  problems.map(({ line, message, hint }) => `${line}: ${message} | ${hint}`);

test('each problem names its line and suggests a correction', async () => {
  const { rules, problems } = await check(
    [
      '// a comment; with a semicolon and a "quote',
      'permit (principal, action == Action::"file.reed", resource);',
      '@aks("ü; \\"why")',
      'forbid (principal, action == Action::"tool.call",',
      '  resource) when { context.lables.contains("outside") };',
      '@ask("no") permit (principal, action, resource);',
      'forbid (principal, action == Action::"file.read",',
      '  resource in Path::"/srv/docs/");',
      'forbid (principal, action == Action::"net.connect", resource == Host::"GitHub.com");',
      '@until("tomorrow") permit (principal, action == Action::"tool.call", resource);',
      'forbid (principal == Agnet::"coder", action, resource);',
      'forbid (principal == ?principal, action, resource);',
      'permit (principal, action, resource',
    ].join('\n'),
  );
  assert.equal(rules, 9);
  const lines = format(problems);
  const expected: [number, RegExp][] = [
    [2, /unrecognized action.*Did you mean `Action::"file\.read"`/],
    [3, /unknown annotation @aks \| Did you mean @ask\?/],
    [5, /lables.*Did you mean `labels`/],
    [6, /@ask is on a permit/],
    [8, /"\/srv\/docs\/" matches nothing: it ends with a slash/],
    [9, /GitHub\.com.*Write github\.com/],
    [10, /tomorrow/],
    [11, /Agnet.*Did you mean `Agent`/],
    [12, /template/],
    [13, /unexpected end/],
  ];
  for (const [line, what] of expected)
    assert.ok(
      lines.some((text) => text.startsWith(`${line}: `) && what.test(text)),
      `${line} ${what}\n${lines.join('\n')}`,
    );
  assert.deepEqual(
    problems.map(({ line }) => line),
    problems.map(({ line }) => line).toSorted((a, b) => a! - b!),
  );
});

test('a host in a rule must be canonical', async () => {
  const problemsWith = async (host: string) => {
    const rule = `forbid (principal, action == Action::"net.connect", resource in Host::"${host}");`;
    return format((await check(rule)).problems);
  };
  for (const host of [
    'github.com',
    '*.github.com',
    '*.com',
    '10.0.0.1',
    '::1',
    'xn--bcher-kva.org',
  ])
    assert.deepEqual(await problemsWith(host), [], host);
  for (const host of ['*', '*.10.0.0.1', '*.*.a.org', 'a..org', '0x7f.1', 'https://a.org'])
    assert.match((await problemsWith(host)).join(), /Write it as github\.com/, host);
  for (const [host, name] of [
    ['*.GitHub.com.', '*.github.com'],
    ['[::1]', '::1'],
    ['bücher.org', 'xn--bcher-kva.org'],
  ] as const)
    assert.ok((await problemsWith(host)).join().includes(`Write ${name}.`), host);
});

test('a rule that can never match is a problem, an unknown name a warning', async () => {
  const never = await check(
    'forbid (principal, action == Action::"tool.call", resource == Path::"/a");',
  );
  assert.equal(never.problems.length, 1);
  const slips = await check(
    [
      'permit (principal == Agent::"codr", action == Action::"file.read", resource in Path::"/srv");',
      'forbid (principal, action == Action::"tool.call", resource in Capability::"git.raed");',
      'forbid (principal is Agent, action == Action::"file.write", resource) when { context.labels.contains("outside") };',
    ].join('\n'),
  );
  assert.deepEqual(slips.problems, []);
  const lines = format(slips.warnings);
  assert.match(lines[0]!, /1: .*Did you mean coder\?/);
  assert.match(lines[1]!, /2: .*Did you mean git\.read\?/);
  assert.match(lines[2]!, /3: the rule forbids files under conditions/);
});

test('a file that is too large is rejected', async () => {
  const { problems } = await check('// '.padEnd(300_000, 'x'));
  assert.match(problems[0]!.message, /bytes/);
});

test('file names are plain', () => {
  assert.ok(isSiteFileName('10-prod.cedar'));
  for (const odd of [
    'prod.txt',
    '.hidden.cedar',
    'a b.cedar',
    '../a.cedar',
    'a/b.cedar',
    'x\n.cedar',
  ])
    assert.ok(!isSiteFileName(odd), odd);
});

test('rules are split as Cedar parses them', () => {
  const text = 'a "x;\\"y" ; // c; d\n\n b // "\n ; rest';
  assert.deepEqual(
    splitRules(text).map((piece) => [piece.text, piece.line]),
    [
      ['a "x;\\"y" ;', 1],
      ['b // "\n ;', 3],
      ['rest', 4],
    ],
  );
});

/** Built-in rules may precede the daemon that asks them; rules of a site may not. */
const withoutUnasked = (problems: readonly FileProblem[]) =>
  problems.filter(({ message }) => !message.endsWith('nothing asks this yet'));

test('the built-in rules and those of manifests pass the check', async () => {
  const base = await check(readBaseText().replace(/^@yields.*\n/m, ''));
  assert.deepEqual([withoutUnasked(base.problems), base.warnings], [[], []]);
  const texts = expandManifestRules(
    'coder',
    rights({
      groups: ['agent-deploy-prod'],
      model: 'a "quoted" \\ model',
      memory: { read: ['project:app'], write: ['project:app/coder'] },
      tools: { allow: ['git.read', 'task.delegate'], deny: ['git.log'] },
      filesystem: {
        read: ['/srv/"odd"/*', '/srv/ü'],
        write: ['/srv/app'],
        deny: ['/home', '/srv/x'],
      },
      network: { mode: 'restricted', allow: ['github.com', '*.npmjs.org', 'r.local:5000'] },
      approvals: { required: ['delete.recursive', 'network.external', 'production.change'] },
      team: { delegateTo: ['tester'], talkTo: ['ops'] },
    }),
  );
  const own = await check(texts.map(({ text }) => text).join('\n'));
  assert.deepEqual(withoutUnasked(own.problems), []);
  assert.equal(own.rules, texts.length);
  assert.equal(new Set(texts.map(({ id }) => id)).size, texts.length);
});

test('a rule that nothing asks about is rejected, with what to do', async () => {
  const { problems } = await check(
    [
      '@ask("x") forbid (principal, action == Action::"memory.read", resource);',
      'forbid (principal is Person, action == Action::"task.delegate", resource);',
      'forbid (principal in Role::"admin", action == Action::"message.send", resource);',
      'forbid (principal is Agent, action == Action::"data.retain", resource);',
      '@ask("x") forbid (principal is Agent, action == Action::"model.use", resource);',
      '@ask("x") forbid (principal, action == Action::"data.retain", resource);',
    ].join('\n'),
  );
  assert.deepEqual(format(problems), [
    '1: @ask with memory.read decides nothing: nothing waits for a person there | Remove @ask to forbid it, or name another action.',
    '2: task.delegate by a principal of type Person decides nothing: nothing asks this yet | Write principal is Agent or External.',
    '3: message.send by a principal of type Person decides nothing: nothing asks this yet | Write principal is Agent or External.',
    '4: data.retain by a principal of type Agent decides nothing: nothing asks this yet | Write principal is Person or Service.',
    '5: @ask with model.use decides nothing: nothing waits for a person there | Remove @ask to forbid it, or name another action.',
    '6: @ask with data.retain decides nothing: nothing waits for a person there | Remove @ask to forbid it, or name another action.',
  ]);
  const asked = await check(
    [
      '@ask("x") forbid (principal in Group::"g", action == Action::"task.delegate", resource);',
      'forbid (principal is Agent, action == Action::"message.send", resource);',
      'forbid (principal, action == Action::"data.retain", resource);',
    ].join('\n'),
  );
  assert.deepEqual(asked.problems, [], 'control: rules that are asked');
});

test('an error that all actions share is reported once', async () => {
  const { problems } = await check('forbid (principal, action, resource) when { context.nope };');
  assert.equal(problems.length, 1);
  assert.match(problems[0]!.message, /`nope` in context not found, for \d+ actions: .* and others/);
  const text = 'forbid (principal, action == Action::"tool.call", resource) when { context.nope };';
  const alone = await check(text);
  assert.equal(alone.problems.length, 1);
  assert.match(alone.problems[0]!.message, /for Action::"tool\.call" not found/);
});
