// What people ask of policy: what is in force, what a file would mean, what an agent may, what a
// change would have meant for the past. Publishing is policy.ts's, deciding src/policy's.
import { type Clock, toTimestamp } from '../../platform/clock.ts';
import type { HandlerContext, Handlers } from '../../platform/dispatch.ts';
import type { Client } from '../../platform/link.ts';
import { boxRulesOf } from '../../policy/box-rules.ts';
import type { Bundle } from '../../policy/bundle.ts';
import { makePolicy, type Policy } from '../../policy/decide.ts';
import type { Rule } from '../../policy/rule.ts';
import { splitRules } from '../../policy/rule-text.ts';
import { isSiteFileName } from '../../policy/site.ts';
import type { policyRoutes } from '../../wire/agentd/policy.ts';
import type { PolicyCheckView, PolicyFile, RuleView } from '../../wire/agentd.ts';
import type { auditRoutes } from '../../wire/auditd-ai.ts';
import { fault } from '../../wire/errors.ts';
import type { tooldRoutes } from '../../wire/toold.ts';
import { agentNotFound } from './agent-not-found.ts';
import type { ReadManifest } from './declared-tools.ts';
import type { Publisher } from './policy.ts';
import { simulate } from './policy-simulate.ts';

type Routes = typeof policyRoutes;

export function policyHandlers(parts: {
  publisher: Publisher;
  policiesDir: string;
  clock: Clock;
  audit: Pick<Client<typeof auditRoutes>, 'events'>;
  toold: Pick<Client<typeof tooldRoutes>, 'getCall'>;
  readManifest: ReadManifest;
}): Handlers<Routes> {
  const { publisher, clock } = parts;
  // The same rules are read by Cedar once for as long as they are in force.
  let made: Policy | undefined;
  const inForce = (): Policy => {
    const bundle = publisher.bundle();
    if (made?.hash !== bundle.hash || made.version !== bundle.version)
      made = makePolicy(bundle, clock);
    return made;
  };
  const check = (files: readonly PolicyFile[]) => checkFiles(publisher, parts.readManifest, files);
  return {
    async getPolicy() {
      const { version, hash, made_at, site, agents, people } = publisher.bundle();
      return {
        policy: {
          version,
          hash,
          made_at,
          people,
          policies_dir: parts.policiesDir,
          site: site.map(({ file, text }) => ({ file, rules: splitRules(text).length })),
          agents: Object.keys(agents).length,
          problems: publisher.problems(),
        },
      };
    },
    checkPolicy: async (c: HandlerContext<Routes['checkPolicy']>) => ({
      check: await check(c.body.files),
    }),
    async showPolicy(c: HandlerContext<Routes['showPolicy']>) {
      const { name } = c.params;
      const policy = inForce();
      const rights = policy.bundle.agents[name];
      if (rights === undefined || !Object.hasOwn(policy.bundle.agents, name))
        throw agentNotFound(name, Object.keys(policy.bundle.agents));
      const { read, write, deny, network } = await boxRulesOf(policy, name);
      const { mode, allow } = network;
      return {
        agent: name,
        version: policy.version,
        groups: rights.groups ?? [],
        rules: (await policy.rulesOf(`agent:${name}`)).map(ruleView),
        box: { read, write, deny, network: { mode, allow } },
      };
    },
    async simulatePolicy(c: HandlerContext<Routes['simulatePolicy']>) {
      const { problems } = await check(c.body.files);
      if (problems.length > 0) {
        const { file, line, message, hint } = problems[0]!;
        throw fault('bad_request', `${file}${line === null ? '' : `:${line}`}: ${message}`, {
          hint,
          details: { problems },
        });
      }
      const changed = makePolicy(withFiles(publisher.bundle(), c.body.files), clock);
      const simulation = await simulate({
        today: inForce(),
        changed,
        audit: parts.audit,
        toold: parts.toold,
        since: c.body.since ?? null,
      });
      return { simulation };
    },
  };
}

function ruleView({ id, effect, ask, why, untilMs, from, text }: Rule): RuleView {
  return {
    id,
    effect: ask === null ? effect : 'ask',
    from,
    why: ask ?? why,
    until: untilMs === null ? null : toTimestamp(untilMs),
    text,
  };
}

const isManifest = (name: string): boolean => /\.ya?ml$/.test(name);

async function checkFiles(
  publisher: Publisher,
  readManifest: ReadManifest,
  files: readonly PolicyFile[],
): Promise<PolicyCheckView> {
  const view: PolicyCheckView = { files: [], problems: [], warnings: [] };
  for (const { name: file, text } of files) {
    if (isManifest(file)) {
      const read = await readManifest(text, file);
      view.files.push({ file, kind: 'manifest', rules: 0 });
      if (!read.ok) view.problems.push(...read.problems);
    } else {
      const { rules, problems, warnings } = await publisher.check({ file, text });
      view.files.push({ file, kind: 'policy', rules });
      view.problems.push(...nameProblems(file), ...problems);
      view.warnings.push(...warnings);
    }
  }
  return view;
}

function nameProblems(file: string): PolicyCheckView['problems'] {
  if (isSiteFileName(file)) return [];
  const message = 'files of other names are not read as rules';
  return [{ file, line: null, message, hint: 'Name it as in 10-prod.cedar.' }];
}

/** Files of the same name are replaced, others added. */
function withFiles(bundle: Bundle, files: readonly PolicyFile[]): Bundle {
  const site = new Map(bundle.site.map((one) => [one.file, one]));
  for (const { name: file, text } of files) {
    if (isManifest(file))
      throw fault('bad_request', `${file} is a manifest; rules are tried on the past`, {
        hint: 'Give a .cedar file.',
      });
    site.set(file, { file, text });
  }
  const sorted = [...site.values()].sort((a, b) => (a.file < b.file ? -1 : 1));
  return { ...bundle, site: sorted };
}
