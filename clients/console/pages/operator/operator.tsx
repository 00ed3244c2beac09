/** The pages of operators. */
import { Link, Route, Switch, useLocation } from 'wouter';
import { useIsOperator } from '../../gateway/operator.ts';
import { OperatorSignIn } from '../operator-sign-in.tsx';
import { Actions } from './actions.tsx';
import { Audit } from './audit.tsx';
import { OneOrganization } from './one-organization.tsx';
import { Organizations } from './organizations.tsx';
import { Operators } from './operators.tsx';
import { ExplainedJob } from './explained-job.tsx';
import { Providers } from './providers.tsx';
import { OperatorJobs } from './operator-jobs.tsx';

const pages = [
  ['/operator', 'Health'],
  ['/operator/jobs', 'Jobs'],
  ['/operator/organizations', 'Organizations'],
  ['/operator/operators', 'Operators'],
  ['/operator/actions', 'Actions'],
] as const;

/** Shows the operator page for the current URL, or the sign-in form. */
export default function Operator() {
  const isOperator = useIsOperator();
  const [location] = useLocation();
  if (!isOperator) {
    return (
      <section className="card stack narrow">
        <h1>Operator</h1>
        <p className="dim">These pages are for operators of the gateway.</p>
        <OperatorSignIn />
      </section>
    );
  }
  const currentPath = pages.findLast(([path]) => location.startsWith(path))?.[0];
  return (
    <>
      <div className="head">
        <h1>Operator</h1>
        <nav className="tabs" aria-label="Operator">
          {pages.map(([path, name]) => (
            <Link key={path} href={path} aria-current={path === currentPath ? 'page' : undefined}>
              {name}
            </Link>
          ))}
        </nav>
      </div>
      <Switch>
        <Route path="/operator/jobs" component={OperatorJobs} />
        <Route path="/operator/jobs/:jobId">{({ jobId }) => <ExplainedJob jobId={jobId} />}</Route>
        <Route path="/operator/organizations" component={Organizations} />
        <Route path="/operator/organizations/:id">
          {({ id }) => <OneOrganization organizationId={id} />}
        </Route>
        <Route path="/operator/operators" component={Operators} />
        <Route path="/operator/actions" component={Actions} />
        <Route>
          <div className="stack">
            <Providers />
            <Audit />
          </div>
        </Route>
      </Switch>
    </>
  );
}
