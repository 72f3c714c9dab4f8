select customer_id as user_id
from orders
group by customer_id
having sum(amount) > 500
