// Handles the policy routes: show the policy in force, check files, show an agent's rules, simulate
// a change on recorded decisions. publisher.ts publishes policy, src/policy decides.
import { type Clock, toTimestamp } from '../../../platform/clock.ts';
import type { HandlerContext, Handlers } from '../../../platform/dispatch.ts';
import type { Client } from '../../../platform/link.ts';
import { planAgentBox } from '../../../policy/box-rules.ts';
import type { Bundle } from '../../../policy/bundle.ts';
import { makePolicy, type Policy } from '../../../policy/decide.ts';
import type { Rule } from '../../../policy/rule.ts';
import { splitRules } from '../../../policy/rule-text.ts';
import { isSiteFileName, type ToolSchemas } from '../../../policy/site.ts';
import type { policyRoutes } from '../../../wire/agentd/policy.ts';
import type { PolicyCheckView, PolicyFile, RuleView } from '../../../wire/agentd.ts';
import type { auditRoutes } from '../../../wire/auditd-ai.ts';
import { fault } from '../../../wire/errors.ts';
import type { tooldRoutes } from '../../../wire/toold.ts';
import type { ReadManifest } from '../manifests/declared-tools.ts';
import { agentNotFound } from '../store/agents.ts';
import { formatProblem, type Publisher } from './publisher.ts';
import { simulate } from './simulate.ts';

type Routes = typeof policyRoutes;

export function makePolicyHandlers(deps: {
  publisher: Publisher;
  policiesDir: string;
  clock: Clock;
  audit: Pick<Client<typeof auditRoutes>, 'events'>;
  toold: Pick<Client<typeof tooldRoutes>, 'getCall'>;
  listToolSchemas: () => Promise<ToolSchemas | undefined>;
  readManifest: ReadManifest;
}): Handlers<Routes> {
  const { publisher, clock } = deps;
  // Cached, so that Cedar parses the rules of a policy once.
  let cached: Policy | undefined;
  const currentPolicy = (): Policy => {
    const bundle = publisher.bundle();
    if (cached?.hash !== bundle.hash || cached.version !== bundle.version)
      cached = makePolicy(bundle, clock);
    return cached;
  };
  const check = (files: readonly PolicyFile[]) => checkFiles(publisher, deps.readManifest, files);
  return {
    async getPolicy() {
      const { version, hash, made_at, site, agents, people } = publisher.bundle();
      return {
        policy: {
          version,
          hash,
          made_at,
          people,
          policies_dir: deps.policiesDir,
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
      const policy = currentPolicy();
      const rights = policy.bundle.agents[name];
      if (rights === undefined || !Object.hasOwn(policy.bundle.agents, name))
        throw agentNotFound(name, Object.keys(policy.bundle.agents));
      const { read, write, deny, network } = await planAgentBox(policy, name);
      const { mode, allow } = network;
      return {
        agent: name,
        version: policy.version,
        groups: rights.groups ?? [],
        rules: (await policy.listRules(`agent:${name}`)).map(toRuleView),
        box: { read, write, deny, network: { mode, allow } },
      };
    },
    async simulatePolicy(c: HandlerContext<Routes['simulatePolicy']>) {
      const { problems } = await check(c.body.files);
      const [first] = problems;
      if (first !== undefined)
        throw fault('bad_request', formatProblem(first), {
          hint: first.hint,
          details: { problems },
        });
      const changed = makePolicy(withFiles(publisher.bundle(), c.body.files), clock);
      const simulation = await simulate({
        today: currentPolicy(),
        changed,
        audit: deps.audit,
        toold: deps.toold,
        listToolSchemas: deps.listToolSchemas,
        since: c.body.since ?? null,
      });
      return { simulation };
    },
  };
}

function toRuleView({ id, effect, ask, why, untilMs, from, text }: Rule): RuleView {
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
      view.problems.push(...checkName(file), ...problems);
      view.warnings.push(...warnings);
    }
  }
  return view;
}

function checkName(file: string): PolicyCheckView['problems'] {
  if (isSiteFileName(file)) return [];
  const message = 'not a valid name for a rule file';
  return [{ file, line: null, message, hint: 'Rename it, for example to 10-prod.cedar.' }];
}

/** Replaces files of the same name and adds the others. */
function withFiles(bundle: Bundle, files: readonly PolicyFile[]): Bundle {
  const site = new Map(bundle.site.map((siteFile) => [siteFile.file, siteFile]));
  for (const { name: file, text } of files) {
    if (isManifest(file))
      throw fault('bad_request', `${file} is a manifest; only rule files can be simulated`, {
        hint: 'Give a .cedar file.',
      });
    site.set(file, { file, text });
  }
  const sorted = [...site.values()].sort((a, b) => (a.file < b.file ? -1 : 1));
  return { ...bundle, site: sorted };
}
