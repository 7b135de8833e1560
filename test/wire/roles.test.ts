// Every route that people call, with every role: the route table decides, and what it leaves to
// readers and approvers is written here, so that a new route is a decision.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { commonRoutes } from '../../src/platform/common-routes.ts';
import { assertCaller } from '../../src/platform/route-callers.ts';
import { type OperatorCaller, PERSON_ROLES, type PersonRole } from '../../src/wire/caller.ts';
import { CONTRACTS } from '../../src/wire/contracts.ts';
import { Fault } from '../../src/wire/errors.ts';
import { type Route, type RouteTable, readRole } from '../../src/wire/route.ts';

type Named = { name: string; route: Route };
const ROUTES: Named[] = Object.entries({ ...CONTRACTS, common: commonRoutes })
  .flatMap(([daemon, table]) =>
    Object.entries(table as RouteTable).map(([name, route]) => ({
      name: `${daemon}.${name}`,
      route,
    })),
  )
  .filter(({ route }) => route.callers.includes('operator'));

const callerOf = (role?: PersonRole): OperatorCaller => ({
  kind: 'operator',
  principal: 'person:ann',
  ...(role === undefined ? {} : { role }),
});

function tryAs(route: Route, role?: PersonRole): Fault | undefined {
  try {
    assertCaller(route, callerOf(role));
    return undefined;
  } catch (error) {
    assert.ok(error instanceof Fault);
    return error;
  }
}

const mayCall = (role: PersonRole) =>
  ROUTES.filter(({ route }) => tryAs(route, role) === undefined);
const changes = ({ route }: Named): boolean => route.method !== 'GET';
const namesOf = (routes: Named[]): string[] => routes.map(({ name }) => name).sort();

describe('roles of people', () => {
  for (const { name, route } of ROUTES)
    it(`${name} is open to ${readRole(route)} and above, and says so to others`, () => {
      const needed = PERSON_ROLES.indexOf(readRole(route));
      assert.equal(tryAs(route), undefined, 'the operator key has every role');
      for (const [i, role] of PERSON_ROLES.entries()) {
        const refused = tryAs(route, role);
        assert.equal(refused === undefined, i >= needed, role);
        if (refused === undefined) continue;
        assert.equal(refused.code, 'forbidden_caller');
        assert.match(refused.message, new RegExp(`person:ann has the role ${role}`));
        assert.match(refused.hint, new RegExp(`needs the role ${PERSON_ROLES[needed]}`));
      }
    });

  it('readers read everything but copies of the databases, and change nothing', () => {
    const reads = ROUTES.filter((one) => !changes(one));
    const kept = reads.filter(({ route }) => tryAs(route, 'reader') !== undefined);
    assert.deepEqual(namesOf(kept), ['common.readSnapshot']);
    // These compute an answer from a body, mail what is read to the reader, mark a mail as read, or
    // decide by the role themselves.
    assert.deepEqual(namesOf(mayCall('reader').filter(changes)), [
      'agentd.checkPolicy',
      'agentd.mailDigest',
      'agentd.readChangeTexts',
      'agentd.simulatePolicy',
      'auditd-ai.proveLine',
      'maild.readMail',
      'maild.submitMail',
    ]);
  });

  it('approvers also decide and answer, and nothing else', () => {
    const more = mayCall('approver').filter(({ route }) => tryAs(route, 'reader') !== undefined);
    assert.deepEqual(namesOf(more), [
      'agentd.answerWait',
      'approvald.approve',
      'approvald.escalate',
      'approvald.reject',
      'approvald.requestInfo',
      'approvald.revokePermit',
      'memoryd.approveMemories',
      'memoryd.approveMemory',
      'memoryd.rejectMemories',
      'memoryd.rejectMemory',
    ]);
  });

  it('operators may call every route of people', () => {
    assert.equal(mayCall('operator').length, ROUTES.length);
  });
});
