// Traffic of the provider for a run: its tools and the URLs in a body are refused unless policy
// allows them to the run's agent, and mark its task.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { modeldRoutes } from '../../src/wire/modeld.ts';
import {
  callSocket,
  type IdleWorld,
  type LiveRun,
  runSocketOf,
  startIdleWorld,
} from '../support/callers.ts';
import { eventually } from '../support/runtime.ts';

const worker = `apiVersion: agentd/v1
kind: Agent
metadata: { name: worker, description: Does as the test says. }
spec:
  replicas: 50
  tools: { allow: [test.tools, model.web_search, model.mcp] }
  network: { allow: [ok.example] }
`;
const SEARCH = { type: 'web_search_20260318', name: 'web_search' };
const IMAGE = { type: 'image', source: { type: 'url', url: 'https://ok.example/a.png' } };

describe('what a provider fetches for a run', () => {
  let world: IdleWorld;
  before(async () => {
    world = await startIdleWorld({ agents: { worker } });
  });
  after(() => world.stop());

  const ask = (run: LiveRun, more: object, content: object[] = []) =>
    callSocket(runSocketOf(world, 'modeld', run), modeldRoutes.anthropicMessages, {
      body: {
        model: 'default',
        max_tokens: 50,
        messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }, ...content] }],
        ...more,
      },
    });
  const isMarked = async (run: LiveRun): Promise<boolean> => {
    const { task } = await world.agentd.getTask({ params: { id: run.taskId } });
    return task.labels.includes('outside');
  };
  const refusal = async (run: LiveRun, more: object, content?: object[]) => {
    const outcome = await ask(run, more, content);
    assert.ok(!outcome.ok, 'it was sent');
    assert.equal(outcome.status, 403);
    return (outcome.body as { message: string }).message;
  };

  it('is refused if nothing allows it, with what to do', async () => {
    const run = await world.startRun();
    const other = { type: 'image', source: { type: 'url', url: 'https://evil.example/?q=secret' } };
    const said = await refusal(run, {}, [other]);
    assert.match(said, /fetch evil\.example:443 for worker: no rule allows.*network\.allow/);
    assert.doesNotMatch(said, /secret/);
    assert.match(
      await refusal(run, { tools: [{ type: 'web_fetch_20250910', name: 'web_fetch' }] }),
      /run model\.web_fetch for worker: no rule allows.*allow model\.web_fetch/,
    );
    assert.match(
      await refusal(run, {
        mcp_servers: [{ type: 'url', url: 'https://evil.example', name: 'm' }],
      }),
      /fetch evil\.example:443/,
    );
    assert.match(
      await refusal(run, {}, [
        { type: 'image', source: { type: 'url', url: 'file:///etc/passwd' } },
      ]),
      /a URL that is not http or https/,
    );
    assert.equal(await isMarked(run), false, 'nothing was fetched');
    const { calls } = await world.modeld.listCalls({ query: { run_id: run.id, limit: 9 } });
    assert.equal(calls.length, 0);
    const event = await eventually('the refusal in the log', async () => {
      const { events } = await world.audit.events({ query: { limit: 1_000 } });
      return events.find(
        ({ event, run_id }) => event === 'model.call.refused' && run_id === run.id,
      );
    });
    assert.equal(event.data?.fetch, 'fetch evil.example:443');
  });

  it('is sent if the manifest allows it, and marks the run; then nothing is sent out', async () => {
    const run = await world.startRun();
    assert.ok((await ask(run, { tools: [SEARCH] }, [IMAGE])).ok);
    assert.equal(await isMarked(run), true);
    assert.match(
      await refusal(run, { tools: [SEARCH] }),
      /run model\.web_search for worker without approval.*read text from outside/,
    );
    assert.ok((await ask(run, {}, [IMAGE])).ok, 'a marked run may still read');
    assert.ok((await ask(run, {})).ok);
    const { events } = await world.audit.events({ query: { limit: 1_000 } });
    const sent = events.find(
      ({ event, run_id }) => event === 'model.call.attempted' && run_id === run.id,
    );
    assert.equal(sent?.data?.fetches, 'model.web_search ok.example:443');
  });

  it('does not concern what the client itself runs or sends', async () => {
    const run = await world.startRun();
    const inline = {
      type: 'image',
      source: { type: 'base64', media_type: 'image/png', data: 'AA' },
    };
    const tools = [{ name: 'web_search', input_schema: { type: 'object' } }];
    assert.ok((await ask(run, { tools }, [inline])).ok);
    assert.equal(await isMarked(run), false);
  });
});
