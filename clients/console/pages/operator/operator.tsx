/** The pages of operators. */
import { Route, Switch, useLocation } from 'wouter';
import { useIsOperator } from '../../gateway/operator.ts';
import { operatorPages } from '../../parts/shell.tsx';
import { OperatorSignIn } from '../operator-sign-in.tsx';
import { Actions } from './actions.tsx';
import { OneOrganization } from './one-organization.tsx';
import { Organizations } from './organizations.tsx';
import { Operators } from './operators.tsx';
import { ExplainedJob } from './explained-job.tsx';
import { FailingWebhooks } from './failing-webhooks.tsx';
import { Overview } from './overview.tsx';
import { OperatorJobs } from './operator-jobs.tsx';
import { Prices } from './prices.tsx';

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
  const name = operatorPages.findLast(({ path }) => location.startsWith(path))?.name;
  return (
    <>
      <div className="head">
        <h1>{name}</h1>
      </div>
      <Switch>
        <Route path="/operator/jobs" component={OperatorJobs} />
        <Route path="/operator/jobs/:jobId">
          {({ jobId }) => <ExplainedJob key={jobId} jobId={jobId} />}
        </Route>
        <Route path="/operator/webhooks" component={FailingWebhooks} />
        <Route path="/operator/organizations" component={Organizations} />
        <Route path="/operator/organizations/:id">
          {({ id }) => <OneOrganization key={id} organizationId={id} />}
        </Route>
        <Route path="/operator/prices" component={Prices} />
        <Route path="/operator/operators" component={Operators} />
        <Route path="/operator/actions" component={Actions} />
        <Route>
          <Overview />
        </Route>
      </Switch>
    </>
  );
}
