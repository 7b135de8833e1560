// Every example in docs/policy.md is a valid rule file and decides as the page says.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { gitTools } from '../../src/daemons/toold/tools/git.ts';
import { findNearest } from '../../src/platform/did-you-mean.ts';
import { loadCedar } from '../../src/policy/cedar.ts';
import type { Action, PolicyContext, Request, ResourceType } from '../../src/policy/request.ts';
import { SHAPES } from '../../src/policy/shapes.ts';
import { checkSiteFile } from '../../src/policy/site.ts';
import { makeTestPolicy } from '../../src/policy/testing/rights.ts';
import { projectRoot } from './fixture.ts';

const page = readFileSync(join(projectRoot, 'docs/policy.md'), 'utf8');

type Example = { title: string; file: string; text: string; questions: [string, string][] };

function examples(): Example[] {
  const sections = page.split(/^### /m).slice(1);
  return sections.map((section) => {
    const [, text = ''] = /```cedar\n([\s\S]*?)```/.exec(section) ?? [];
    const [, file = ''] = /^\/\/ (\S+\.cedar)/.exec(text) ?? [];
    const rows = [...section.matchAll(/^\| `([^`]+)` \| (\w+) \|$/gm)];
    return {
      title: section.split('\n')[0]!,
      file,
      text,
      questions: rows.map(([, question, answer]): [string, string] => [question!, answer!]),
    };
  });
}

/**
 * `agent:coder tool.call git.diff [outside] high`, `agent:coder tool.call git.branch name=main`,
 * `agent:coder net.connect a.org POST`,
 * `service:agentd data.delete tasks:x/y 8d`
 */
function requestOf(question: string): Request {
  const [principal = '', action = '', id = '', ...more] = question.split(' ');
  const labels = more.flatMap((word) => /^\[(.*)\]$/.exec(word)?.[1] ?? []);
  const shape = SHAPES[action as Action];
  const decided = { decision: 'approve', reach: 'once', channel: 'api' };
  const tool = { tool: id, class: id, agent: 'coder', ...decided };
  const values: PolicyContext = {
    path: id,
    host: id,
    scope: id,
    port: 443,
    is_address: false,
    idempotent: true,
    level: 'L1',
    labels,
    risk: more.includes('high') ? 'high' : 'low',
    reversibility: 'reversible',
    task_id: 't',
    root_task_id: 't',
    ...tool,
  };
  const context = Object.fromEntries(Object.keys(shape.required).map((key) => [key, values[key]!]));
  const age = more.map((word) => /^(\d+)d$/.exec(word)?.[1]).find((days) => days !== undefined);
  if (age !== undefined) context.age_days = Number(age);
  const pairs = more.filter((word) => word.includes('=')).map((word) => word.split('='));
  const given = Object.fromEntries(pairs) as Record<string, string>;
  const method = more.find((word) => /^[A-Z]+$/.test(word));
  if (method !== undefined) context.method = method;
  const type = shape.resources[0] as ResourceType;
  const resource = { type, id };
  return { principal, action: action as Action, resource, context, arguments: () => given };
}

const agents = {
  coder: {
    groups: ['agent-run-tests'],
    tools: { allow: ['git.read', 'git.write_branch', 'file.read', 'http.fetch', 'prod.deploy'] },
    filesystem: { read: ['/srv/repos'] },
    network: { allow: ['github.com'] },
  },
  other: {},
};
/** The tools whose arguments the examples read. */
const schemas = new Map(
  gitTools().map(({ name, view }): [string, Record<string, unknown>] => [name, view.input_schema]),
);
const people = { alice: { roles: ['approver'] }, eve: { roles: ['admin'] } };

for (const { title, file, text, questions } of examples()) {
  test(`the example "${title}" is valid and decides as the page says`, async () => {
    const cedar = await loadCedar();
    const known = { agents: Object.keys(agents), nearest: findNearest, tools: schemas };
    const { problems, warnings, rules } = checkSiteFile(cedar, { file, text }, known);
    assert.deepEqual([problems, warnings], [[], []]);
    assert.ok(rules > 0 && questions.length > 1);
    const nowMs = () => Date.parse('2026-01-01T00:00:00Z');
    const policy = makeTestPolicy(agents, { people, nowMs, site: { [file]: text } });
    for (const [question, answer] of questions)
      assert.equal((await policy.decide(requestOf(question))).answer, answer, question);
  });
}

test('the page has several examples and names every action', () => {
  assert.ok(examples().length >= 6);
  for (const action of Object.keys(SHAPES)) assert.ok(page.includes(`\`${action}\``), action);
});
